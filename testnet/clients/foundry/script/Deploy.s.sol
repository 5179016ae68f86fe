// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {Counter} from "../src/Counter.sol";
import {vm} from "../src/Vm.sol";

/// Deploys a Counter and counts twice: three transactions.
contract Deploy {
    function run() external returns (Counter counter) {
        vm.startBroadcast();
        counter = new Counter(7);
        counter.add(1);
        counter.add(2);
        vm.stopBroadcast();
    }
}

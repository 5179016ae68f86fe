// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {Counter} from "../src/Counter.sol";
import {vm} from "../src/Vm.sol";

interface Producers {
    function quorum() external view returns (uint256);
    function candidates() external view returns (address[] memory);
}

/// Runs on a fork of a node: what is deployed there is COUNTER, with what it must hold in EXPECTED.
contract CounterTest {
    Counter counter;

    function setUp() external {
        counter = new Counter(1);
    }

    function test_counts() external {
        require(counter.add(4) == 5 && counter.number() == 5);
    }

    function test_refuses() external {
        vm.expectRevert(abi.encodeWithSelector(Counter.TooFar.selector, 101, 100));
        counter.add(101);
    }

    function testFuzz_adds(uint8 step) external {
        uint256 s = uint256(step) % 101;
        require(counter.add(s) == 1 + s);
    }

    function test_readsTheNode() external {
        require(block.chainid == vm.envUint("CHAIN"), "another chain");
        Counter there = Counter(vm.envAddress("COUNTER"));
        require(there.number() == vm.envUint("EXPECTED"), "the node's state differs");
        vm.prank(address(0xbeef));
        there.add(1); // on the fork alone
        require(there.number() == vm.envUint("EXPECTED") + 1);
    }

    function test_readsTheSystemContracts() external view {
        Producers producers = Producers(0x0000000000000000000000000000000000000B01);
        require(producers.candidates().length > 0 && producers.quorum() > 0);
    }
}

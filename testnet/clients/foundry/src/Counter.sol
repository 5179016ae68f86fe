// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// Counts, in steps that its caller chooses.
contract Counter {
    event Counted(address indexed by, uint256 number);

    error TooFar(uint256 step, uint256 limit);

    uint256 public constant LIMIT = 100;
    uint256 public number;

    constructor(uint256 first) {
        number = first;
    }

    function add(uint256 step) external returns (uint256) {
        if (step > LIMIT) revert TooFar(step, LIMIT);
        number += step;
        emit Counted(msg.sender, number);
        return number;
    }
}

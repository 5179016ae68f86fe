// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// The contract that the client tests deploy and call.
contract Sample {
    event Stored(address indexed by, uint256 indexed value, string note);

    error TooLarge(uint256 value, uint256 limit);

    uint256 public constant LIMIT = 1000;
    uint256 public value;

    constructor(uint256 initial) {
        value = initial;
    }

    function store(uint256 v, string calldata note) external returns (uint256 old) {
        if (v > LIMIT) revert TooLarge(v, LIMIT);
        require(v != 13, "thirteen is refused");
        old = value;
        value = v;
        emit Stored(msg.sender, v, note);
    }

    function sum(uint256[] calldata xs) external pure returns (uint256 s) {
        for (uint256 i = 0; i < xs.length; i++) s += xs[i];
    }

    function burn(uint256 rounds) external view returns (bytes32 h) {
        h = blockhash(block.number - 1);
        for (uint256 i = 0; i < rounds; i++) h = keccak256(abi.encode(h, i));
    }
}

// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// What only the account that deployed it may do.
abstract contract Owned {
    error NotOwner(address caller);

    address public immutable owner = msg.sender;

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotOwner(msg.sender);
        _;
    }
}

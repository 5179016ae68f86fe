// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {Owned} from "./Owned.sol";

/// Amounts kept per account; its owner may close it.
contract Ledger is Owned {
    event Moved(address indexed from, address indexed to, uint256 amount);

    error NotEnough(address account, uint256 has, uint256 wants);

    mapping(address => uint256) public balanceOf;
    bool public closed;

    function put() external payable {
        require(!closed, "the ledger is closed");
        balanceOf[msg.sender] += msg.value;
        emit Moved(address(0), msg.sender, msg.value);
    }

    function move(address to, uint256 amount) external {
        uint256 has = balanceOf[msg.sender];
        if (has < amount) revert NotEnough(msg.sender, has, amount);
        balanceOf[msg.sender] = has - amount;
        balanceOf[to] += amount;
        emit Moved(msg.sender, to, amount);
    }

    function close() external onlyOwner {
        closed = true;
    }
}

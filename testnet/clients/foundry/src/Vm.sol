// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// What of forge's cheat codes this project uses.
interface Vm {
    function startBroadcast() external;
    function stopBroadcast() external;
    function deal(address account, uint256 balance) external;
    function prank(address sender) external;
    function expectRevert(bytes calldata data) external;
    function activeFork() external view returns (uint256);
    function rollFork(uint256 blockNumber) external;
    function envAddress(string calldata name) external view returns (address);
    function envUint(string calldata name) external view returns (uint256);
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

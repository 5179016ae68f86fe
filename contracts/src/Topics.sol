pragma solidity 0.8.37;

import {Notary} from "./Notary.sol";

/// The topic log's part of the ledger: tenants and their rules of access, brokers, topics with the leases of their
/// partitions, keys of encrypted topics, pseudonyms, and what brokers put on record. It is part of the genesis state.
contract Topics is Notary {
    struct Token {
        address account;
        uint64 issued; // Unix seconds
        uint64 expires; // at most a day later
        uint8 scope; // bit 0 data, bit 1 administration
        bytes32 nonce;
    }

    // ---------------------------------------------------------------- relay

    /// Makes an administrative call for the account that signed a token: a live broker relays what it was asked by a
    /// client that presented it. The call is judged as the account's own. It can create, grow, configure and delete
    /// topics and set rules of access, nothing else.
    function relay(Token calldata t, bytes calldata signature, bytes calldata data) external returns (bytes memory) {
        _liveBroker();
        require(t.scope & ADMIN_SCOPE != 0, "Topics: the token is not for administration");
        require(block.timestamp < t.expires, "Topics: the token has expired");
        require(
            t.issued < t.expires && t.expires - t.issued <= MAX_TOKEN_SECONDS, "Topics: a token is valid for a day at most"
        );
        require(t.issued <= block.timestamp + TOKEN_SKEW, "Topics: the token was issued in the future");
        require(t.issued > _tokensAfter[t.account], "Topics: the account has cancelled the token");
        require(
            t.account != address(0) && _signer(tokenDigest(t), signature) == t.account,
            "Topics: the token is not signed by its account for this chain"
        );
        require(_relayed(bytes4(data)), "Topics: no administrative call that can be relayed");
        _acting = t.account;
        (bool ok, bytes memory out) = address(this).call(data);
        _acting = address(0);
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(out, 32), mload(out))
            }
        }
        return out;
    }

    /// Voids the caller's tokens issued until now, and those that a clock ahead of the chain's, or a thief, dated as
    /// late as a token may be. New ones count once they are dated later.
    function cancelTokens() external {
        uint64 until = uint64(block.timestamp + TOKEN_SKEW);
        _tokensAfter[msg.sender] = until;
        emit TokensCancelled(msg.sender, until);
    }

    /// Tokens of an account issued at this time (Unix seconds) or before are void.
    function tokensCancelled(address account) external view returns (uint64) {
        return _tokensAfter[account];
    }

    /// What the account of a token signs.
    function tokenDigest(Token calldata t) public view returns (bytes32) {
        bytes32 h = keccak256(
            abi.encode(
                "bornode token", block.chainid, address(this), t.account, t.issued, t.expires, t.scope, t.nonce
            )
        );
        return keccak256(abi.encodePacked("\x19Ethereum Signed Message:\n32", h));
    }

    function _relayed(bytes4 selector) private pure returns (bool) {
        return selector == this.createTopic.selector || selector == this.addPartitions.selector
            || selector == this.configure.selector || selector == this.deleteTopic.selector
            || selector == this.grant.selector || selector == this.revoke.selector;
    }

    function _signer(bytes32 digest, bytes calldata signature) private pure returns (address) {
        if (signature.length != 65) return address(0);
        uint8 v = uint8(signature[64]);
        // The larger s of the two that fit is refused, as everywhere on the chain.
        if (
            uint256(bytes32(signature[32:64])) > 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0
        ) return address(0);
        return ecrecover(digest, v < 27 ? v + 27 : v, bytes32(signature[:32]), bytes32(signature[32:64]));
    }
}

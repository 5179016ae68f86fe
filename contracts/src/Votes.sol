pragma solidity 0.8.37;

import {BLS} from "solady/src/utils/ext/ithaca/BLS.sol";

/// What producers sign with their BLS keys, and how it is checked. Keys and signatures are uncompressed points in the
/// form of EIP-2537 (128 and 256 bytes); a key is named by its 48 compressed bytes.
library Votes {
    /// One vote: kind 1 is a prevote, kind 2 a precommit (whose source is its target).
    struct Vote {
        uint8 kind;
        uint64 sourceSlot;
        bytes32 sourceHash;
        uint64 targetSlot;
        bytes32 targetHash;
        bytes signature;
    }

    uint8 internal constant PREVOTE = 1;
    uint8 internal constant PRECOMMIT = 2;

    /// The recovery in force, which votes and seals are bound to: none.
    bytes32 internal constant NO_RECOVERY = 0;

    // (p - 1) / 2 of the base field: the larger of y and -y lies above it.
    uint256 private constant HALF_HIGH = 0x0d0088f51cbff34d258dd3db21a5d66b;
    uint256 private constant HALF_LOW = 0xb23ba5c279c2895fb39869507b587b120f55ffff58a9ffffdcff7fffffffd555;

    /// The message that a voter signs.
    function voteDigest(bytes32 genesisHash, bytes32 recovery, Vote calldata v) internal pure returns (bytes32) {
        return keccak256(
            abi.encodePacked(
                "bornode-vote-2",
                genesisHash,
                recovery,
                v.kind,
                v.sourceSlot,
                v.sourceHash,
                v.targetSlot,
                v.targetHash
            )
        );
    }

    /// The message that the producer of a block signs.
    function sealDigest(bytes32 genesisHash, bytes32 recovery, bytes32 blockHash) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked("bornode-seal-2", genesisHash, recovery, blockHash));
    }

    /// The message that proves possession of a key.
    function possessionDigest(uint64 chainId, address account, bytes memory key48) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked("bornode-pop-1", chainId, account, key48));
    }

    /// The compressed form of a key: 32 and 16 bytes. Infinity has none.
    function compress(bytes calldata key128) internal pure returns (bytes32 head, bytes16 tail) {
        require(key128.length == 128, "Producers: an uncompressed key has 128 bytes");
        head = bytes32(key128[16:48]);
        tail = bytes16(key128[48:64]);
        uint256 yHigh = uint128(bytes16(key128[80:96]));
        uint256 yLow = uint256(bytes32(key128[96:128]));
        require(head != 0 || tail != 0 || yHigh != 0 || yLow != 0, "Producers: the key is the point at infinity");
        bool larger = yHigh > HALF_HIGH || (yHigh == HALF_HIGH && yLow > HALF_LOW);
        head |= bytes32(uint256(larger ? 0xa0 : 0x80) << 248);
    }

    /// Whether signature is the key's on the digest. Points outside the curve or its subgroup make it revert.
    function check(bytes calldata key128, bytes32 digest, bytes calldata signature) internal view returns (bool) {
        require(signature.length == 256, "Producers: an uncompressed signature has 256 bytes");
        BLS.G1Point[] memory g1 = new BLS.G1Point[](2);
        BLS.G2Point[] memory g2 = new BLS.G2Point[](2);
        g1[0] = abi.decode(key128, (BLS.G1Point));
        g2[0] = BLS.hashToG2(abi.encodePacked(digest));
        g1[1] = BLS.G1Point( // the generator, negated
            bytes32(uint256(0x17f1d3a73197d7942695638c4fa9ac0f)),
            0xc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb,
            bytes32(uint256(0x114d1d6855d545a8aa7d76c8cf2e21f2)),
            0x67816aef1db507c96655b9d5caac42364e6f38ba0ecb751bad54dcd6b939c2ca
        );
        g2[1] = abi.decode(signature, (BLS.G2Point));
        return BLS.pairing(g1, g2);
    }
}

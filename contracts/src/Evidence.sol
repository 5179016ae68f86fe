pragma solidity 0.8.37;

import {Base} from "./Base.sol";
import {RLP} from "./RLP.sol";
import {Votes} from "./Votes.sol";

/// Proofs that a producer broke a rule, and what follows.
abstract contract Evidence is Base {
    /// Proves that one producer sealed two blocks of one slot. A header's extra data is the hash of its record, which
    /// holds the slot; its time must be the slot's on this chain. Seals are bound to this chain, so blocks of another
    /// one prove nothing.
    function evidenceSeal(
        bytes calldata header1,
        bytes calldata seal1,
        bytes calldata header2,
        bytes calldata seal2,
        bytes calldata record1,
        bytes calldata record2
    ) external {
        require(keccak256(header1) != keccak256(header2), "Producers: the two headers are one");
        address signer = _signer(keccak256(header1), seal1);
        require(signer == _signer(keccak256(header2), seal2), "Producers: two producers sealed the headers");
        (uint64 slot,) = _readHeader(header1, record1);
        (uint64 slot2,) = _readHeader(header2, record2);
        require(slot == slot2, "Producers: the headers are of two slots");
        require(_candidate[signer].key != 0, "Producers: the signer never registered");
        _punish(signer, 0, slot);
    }

    /// Proves that the owner of a key broke a rule of voting: two prevotes on two blocks of one slot (headers and
    /// records stay empty), or a precommit on B (first) and a prevote on D (second) that conflicts with B while
    /// source(D) < B < D. For the latter headers lead from D, by parents, down to the first block that is not above B's
    /// slot, each with its record; runs that provePath remembers for the caller are left out.
    function evidenceVotes(
        bytes calldata key128,
        Votes.Vote calldata first,
        Votes.Vote calldata second,
        bytes[] calldata headers,
        bytes[] calldata records
    ) external {
        (bytes32 head, bytes16 tail) = Votes.compress(key128);
        address signer = _keyOwner[keccak256(abi.encodePacked(head, tail))];
        require(signer != address(0), "Producers: nobody registered this key");
        require(second.kind == Votes.PREVOTE, "Producers: the second vote must be a prevote");
        uint8 rule;
        if (first.kind == Votes.PREVOTE) {
            require(
                first.targetSlot == second.targetSlot && first.targetHash != second.targetHash,
                "Producers: the prevotes are not on two blocks of one slot"
            );
            rule = 1;
        } else {
            require(first.kind == Votes.PRECOMMIT, "Producers: the first vote is of an unknown kind");
            require(
                first.sourceSlot == first.targetSlot && first.sourceHash == first.targetHash,
                "Producers: a precommit's source is its target"
            );
            require(
                second.sourceSlot < first.targetSlot && first.targetSlot < second.targetSlot,
                "Producers: the precommit does not lie between the prevote's source and target"
            );
            _requireConflict(first, second, headers, records);
            rule = 2;
        }
        bytes32 genesis = _knownGenesis();
        require(
            Votes.check(key128, Votes.voteDigest(genesis, Votes.NO_RECOVERY, first), first.signature)
                && Votes.check(key128, Votes.voteDigest(genesis, Votes.NO_RECOVERY, second), second.signature),
            "Producers: a vote is not signed by this key for this chain"
        );
        _punish(signer, rule, second.targetSlot);
    }

    /// Remembers a run of headers, each followed by its parent, for evidence whose headers are too many for one
    /// transaction. Only the caller's own evidence uses it: nobody can get in the way of another's.
    function provePath(bytes[] calldata headers, bytes[] calldata records) external {
        require(headers.length == records.length && headers.length > 0, "Producers: the headers are missing");
        bytes32 top = keccak256(headers[0]);
        Path memory p;
        for (uint256 i = 0; i < headers.length; i++) {
            require(i == 0 || keccak256(headers[i]) == p.next, "Producers: the headers do not lead down");
            (p.low, p.next) = _readHeader(headers[i], records[i]);
            if (i == 0) p.top = p.low;
        }
        _path[msg.sender][top] = p;
        emit PathProven(msg.sender, top, p.next, p.top, p.low);
    }

    // D's branch passes B's slot without B.
    function _requireConflict(
        Votes.Vote calldata b,
        Votes.Vote calldata d,
        bytes[] calldata headers,
        bytes[] calldata records
    ) private view {
        require(headers.length == records.length, "Producers: every header needs its record");
        bytes32 want = d.targetHash;
        bool begun;
        for (uint256 i = 0;;) {
            uint64 slot;
            uint64 low;
            bytes32 next;
            if (i < headers.length && keccak256(headers[i]) == want) {
                (slot, next) = _readHeader(headers[i], records[i]);
                low = slot;
                i++;
            } else {
                Path storage p = _path[msg.sender][want];
                bool known = p.next != 0 && p.low > b.targetSlot;
                require(known || i < headers.length, "Producers: the headers end above B's slot");
                require(known, "Producers: the headers do not lead down from D");
                (slot, low, next) = (p.top, p.low, p.next);
            }
            require(begun || slot == d.targetSlot, "Producers: D's slot is another");
            begun = true;
            if (low <= b.targetSlot) {
                require(want != b.targetHash, "Producers: D descends from B");
                return;
            }
            want = next;
        }
    }

    function _readHeader(bytes calldata header, bytes calldata record)
        private
        view
        returns (uint64 slot, bytes32 parent)
    {
        uint256 length;
        uint256 value;
        (uint256 pos, uint256 end) = RLP.list(record);
        pos = RLP.skip(record, pos, end); // version
        (value,,) = RLP.word(record, pos, end);
        require(value <= type(uint64).max, "Producers: the record's slot is too large");
        slot = uint64(value);

        (pos, end) = RLP.list(header);
        (value, length, pos) = RLP.word(header, pos, end);
        require(length == 32, "Producers: the header has no parent");
        parent = bytes32(value);
        for (uint256 i = 1; i < 11; i++) {
            pos = RLP.skip(header, pos, end); // uncles, coinbase, three roots, bloom, difficulty, number, two of gas
        }
        (value,, pos) = RLP.word(header, pos, end);
        require(value == _slotTime(slot), "Producers: the header's time is not its slot's on this chain");
        (value, length, pos) = RLP.word(header, pos, end);
        require(length == 32 && bytes32(value) == keccak256(record), "Producers: the record is not the header's");
    }

    function _signer(bytes32 hash, bytes calldata seal) private view returns (address signer) {
        require(seal.length == 65 && uint8(seal[64]) < 2, "Producers: a seal has 65 bytes: r, s, v");
        bytes32 digest = Votes.sealDigest(_knownGenesis(), Votes.NO_RECOVERY, hash);
        signer = ecrecover(digest, uint8(seal[64]) + 27, bytes32(seal[:32]), bytes32(seal[32:64]));
        require(signer != address(0), "Producers: the seal is no signature");
    }

    function _knownGenesis() private view returns (bytes32 genesis) {
        genesis = genesisHash();
        require(genesis != 0, "Producers: the genesis hash is not known yet");
    }

    function _slotTime(uint64 slot) private view returns (uint256) {
        return uint256(_settings.genesisTime) + uint256(slot) * _settings.slotMillis / 1000;
    }

    function _punish(address account, uint8 rule, uint64 slot) private {
        Candidate storage c = _candidate[account];
        require(!c.guilty, "Producers: this producer was proven guilty before");
        require(block.timestamp <= _slotTime(slot) + _settings.evidenceSeconds, "Producers: the evidence is too old");
        c.guilty = true;
        Account storage a = _account[account];
        uint96 fromStake = uint96(uint256(a.stake) * _settings.slashPercent / 100);
        uint96 fromLeaving = uint96(uint256(a.leaving) * _settings.slashPercent / 100);
        a.stake -= fromStake;
        a.leaving -= fromLeaving;
        _totalStake -= fromStake + fromLeaving;
        _slashed += fromStake + fromLeaving;
        Ballot[] storage bs = _ballots[account];
        while (a.voted > a.stake) {
            uint256 i = bs.length - 1;
            uint96 over = a.voted - a.stake;
            _takeBack(account, bs, i, over < bs[i].amount ? over : bs[i].amount);
        }
        emit Slashed(account, rule, slot, fromStake + fromLeaving);
    }
}

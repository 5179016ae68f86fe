pragma solidity 0.8.37;

import {TopicAdmin} from "./TopicAdmin.sol";

/// What brokers put on record: checkpoints of topics' logs, operations of clients, their standing, offsets of groups.
abstract contract Notary is TopicAdmin {
    struct Checkpoint {
        bytes32 topic;
        uint64 seq;
        bytes32 root;
        uint64 leaves;
    }

    struct Operations {
        bytes32 topic;
        uint32 count;
        bytes entries;
    }

    struct Standing {
        bytes32 tenant; // keccak256(name)
        address account;
        uint16 refused; // kinds of operations that no rule allowed: bit k is the kind with Kafka's number k
        uint32 honest; // operations
    }

    struct Offset {
        bytes32 group;
        bytes32 topic;
        uint32 partition;
        int64 offset;
    }

    // ---------------------------------------------------------------- commit

    /// Records what a broker gathered. number is the broker's last + 1, so a batch that is sent again counts once. The
    /// entries of operations stay in this transaction's call data, which is why a broker's key must have sent it.
    function commit(
        uint64 number,
        Checkpoint[] calldata checkpoints,
        Operations[] calldata operations_,
        Standing[] calldata standings,
        Offset[] calldata offsets
    ) external {
        // An account with code, even code that it named itself, could call with data that is in no transaction.
        require(
            msg.sender == tx.origin && msg.sender.code.length == 0,
            "Topics: a broker's account commits by a transaction of its own"
        );
        require(msg.data.length <= MAX_COMMIT, "Topics: the commit has more than 122880 bytes");
        uint256 broker = _liveBroker();
        uint64 last = _brokers[broker - 1].commits;
        require(number > last, "Topics: this commit was counted before");
        require(number == last + 1, "Topics: commits before this one are missing");
        _brokers[broker - 1].commits = number;
        emit Committed(msg.sender, number);
        _checkpoints(broker, checkpoints);
        _operate(operations_);
        _stand(standings);
        _commitOffsets(broker, offsets);
    }

    // A checkpoint that came too late, by who leads partition 0 no more or with a number that was taken, is passed over,
    // and so is one with fewer leaves than the one before. It does not revert: whatever is wrong with one topic, the
    // broker's record of all others must go on.
    function _checkpoints(uint256 broker, Checkpoint[] calldata list) private {
        require(list.length <= MAX_CHECKPOINTS, "Topics: more than 256 checkpoints in one commit");
        for (uint256 i = 0; i < list.length; i++) {
            Checkpoint calldata c = list[i];
            Mark storage m = _marks[c.topic];
            if (_leader(_leases[c.topic][0]) != broker || c.seq != m.seq + 1 || c.leaves < m.leaves) continue;
            m.seq = c.seq;
            m.leaves = c.leaves;
            m.height = uint64(block.number);
            m.root = c.root;
            emit Checkpointed(c.topic, c.seq, c.root, c.leaves, msg.sender);
        }
    }

    // The log of topic zero holds the operations that named no topic there ever was.
    function _operate(Operations[] calldata list) private {
        uint256 count;
        uint256 size;
        for (uint256 i = 0; i < list.length; i++) {
            Operations calldata o = list[i];
            require(o.topic == 0 || _topics[o.topic].created != 0, "Topics: operations on a topic that never was");
            count += o.count;
            size += o.entries.length;
            require(count <= MAX_OPERATIONS, "Topics: more than 512 operations in one commit");
            require(size <= MAX_ENTRIES, "Topics: the operations of one commit have more than 98304 bytes");
            require(o.count > 0 && o.entries.length >= o.count, "Topics: operations without entries");
            Journal storage j = _journals[o.topic];
            (bytes32 root, uint64 height) = (j.root, j.height);
            bytes32 next = keccak256(abi.encode(root, height, keccak256(o.entries), o.count));
            j.count += o.count;
            j.height = uint64(block.number);
            j.root = next;
            emit Operated(o.topic, msg.sender, height, root, o.count, next);
        }
    }

    // A kind of operation that a tenant's rules refused to an account costs it 5 points there, once in a minute however many
    // brokers say so. Honest work gives one point back, one in a block from each broker, and time does. One broker alone
    // lowers an account by 60 at most while there are others, so it cannot blacklist anybody. Reports of a tenant that there
    // is not are passed over.
    function _stand(Standing[] calldata list) private {
        require(list.length <= MAX_STANDINGS, "Topics: more than 128 standings in one commit");
        for (uint256 i = 0; i < list.length; i++) {
            if (_tenants[list[i].tenant].connections != 0) _judge(list[i]);
        }
    }

    function _judge(Standing calldata x) private {
        Repute storage s = _standings[x.tenant][x.account];
        Tally storage t = _tallies[msg.sender][x.tenant][x.account];
        uint32 pardons = _pardonsOf(x.tenant, x.account);
        uint256 lost = s.pardons == pardons ? _remaining(s.lost, s.minute) : 0;
        uint16 charged = s.pardons == pardons && s.minute == _minute() ? s.charged : 0;
        uint256 lowered = t.pardons == pardons ? _remaining(t.lowered, t.minute) : 0;
        uint256 most = _live.length == 1 ? REPUTATION : BROKER_LOWERS;
        uint16 kinds = x.refused & KINDS & ~charged;
        bool changed;
        for (uint16 kind = 1; kind <= kinds; kind <<= 1) {
            if (kinds & kind == 0) continue;
            uint256 cost = REPUTATION - lost < REFUSED_COSTS ? REPUTATION - lost : REFUSED_COSTS;
            if (cost == 0 || lowered + cost > most) break;
            lost += cost;
            lowered += cost;
            charged |= kind;
            changed = true;
        }
        if (x.honest > 0 && lost > 0 && t.given != block.number) {
            lost--;
            if (lowered > 0) lowered--;
            t.given = uint64(block.number);
            changed = true;
        }
        if (!changed) return;
        (s.pardons, s.minute, s.charged, s.lost) = (pardons, _minute(), charged, uint8(lost));
        (t.pardons, t.minute, t.lowered) = (pardons, _minute(), uint8(lowered));
        emit StandingChanged(
            x.tenant, x.account, msg.sender, uint8(REPUTATION - lost), uint64(block.timestamp), x.refused, x.honest
        );
    }

    // Offsets of a group come from its coordinator: the leader of partition group % 16 of _bps.offsets. Those of another,
    // negative ones and those of a partition that never was are passed over.
    function _commitOffsets(uint256 broker, Offset[] calldata list) private {
        require(list.length <= MAX_OFFSETS, "Topics: more than 256 offsets in one commit");
        if (list.length == 0) return;
        bytes32 own = _topicOf[OFFSETS_NAME];
        for (uint256 i = 0; i < list.length; i++) {
            Offset calldata o = list[i];
            if (o.offset < 0 || o.partition >= _topics[o.topic].partitions) continue;
            if (_leader(_leases[own][uint256(o.group) % OFFSETS_PARTITIONS]) != broker) continue;
            _offsets[keccak256(abi.encode(o.group, o.topic, o.partition))] = Kept(true, o.offset);
            emit OffsetCommitted(o.topic, o.group, o.partition, o.offset);
        }
    }

    // ---------------------------------------------------------------- reading

    /// A topic's log of operations: how many there ever were, the root over them, the block of the last.
    function operations(bytes32 id) external view returns (uint64 count, bytes32 root, uint64 lastOpHeight) {
        Journal storage j = _journals[id];
        return (j.count, j.root, j.height);
    }

    /// A topic's last checkpoint; seq 0 before the first.
    function checkpoint(bytes32 id) external view returns (uint64 seq, bytes32 root, uint64 leaves, uint64 height) {
        Mark storage m = _marks[id];
        return (m.seq, m.root, m.leaves, m.height);
    }

    /// The offset that a group committed for a partition; known is false if there is none.
    function offsetOf(bytes32 group, bytes32 id, uint32 partition) external view returns (int64 offset, bool known) {
        Kept storage k = _offsets[keccak256(abi.encode(group, id, partition))];
        return (k.offset, k.known);
    }

    /// How many commits of a broker were counted.
    function commits(address broker) external view returns (uint64) {
        uint256 number = _brokerOf[broker];
        return number == 0 ? 0 : _brokers[number - 1].commits;
    }
}

pragma solidity 0.8.37;

import {Brokers} from "./Brokers.sol";

/// Which broker leads a partition, and which keep its log. Every change of leader or replicas starts another epoch, so
/// who acts on an older one is told apart.
///
/// A lease is one word: the epoch in bits 0-31, the leader's number in 32-55, how many replicas in 56-63, and their
/// numbers, 24 bits each, from bit 64 on. The uppermost 24 bits are those of the height of its last change: a lease
/// changes once in a block, so that nobody uses up its epochs.
abstract contract Leases is Brokers {
    struct Lease {
        address leader;
        uint32 epoch;
        address[] replicas;
        address[] wanted; // by the owner; empty: any
    }

    struct Claim {
        bytes32 topic;
        uint32 partition;
        uint32 epoch;
    }

    struct Handover {
        bytes32 topic;
        uint32 partition;
        uint32 epoch;
        address to;
    }

    uint256 private constant LAST_EPOCH = 0x7fffffff; // of the Kafka protocol

    // ---------------------------------------------------------------- changing

    /// Makes the caller, a replica, the leader of partitions whose epoch is still the given one. Claims that are stale
    /// or not the caller's to make are passed over; what was taken is told by events.
    function claim(Claim[] calldata list) external returns (uint256 taken) {
        require(list.length <= MAX_CLAIMS, "Topics: more than 512 claims in one call");
        uint256 number = _liveBroker();
        for (uint256 i = 0; i < list.length; i++) {
            Claim calldata c = list[i];
            if (_pass(c.topic, c.partition, c.epoch, number, msg.sender)) taken++;
        }
    }

    /// Gives leases of the caller to other replicas, live ones: for a broker that stops or whose disk is full. Those
    /// that are stale or not the caller's to give are passed over; what was given is told by events.
    function handOver(Handover[] calldata list) external returns (uint256 given) {
        require(list.length <= MAX_CLAIMS, "Topics: more than 512 leases in one call");
        uint256 number = _brokerOf[msg.sender];
        require(number != 0, "Topics: only a registered broker calls this");
        for (uint256 i = 0; i < list.length; i++) {
            Handover calldata h = list[i];
            uint256 to = _brokerOf[h.to];
            if (to == number || !_isLive(to) || _leader(_leases[h.topic][h.partition]) != number) continue;
            if (_pass(h.topic, h.partition, h.epoch, to, h.to)) given++;
        }
    }

    /// Adds one broker to a partition's replicas or takes one away. Only its leader does, in the current epoch, and
    /// stays: he does it once a majority has entered that epoch, so that every two sets that follow each other share
    /// whoever holds what is committed. A broker that attends is taken away only if as many that attend are left as
    /// the owner wants: a leader that lies must not become the only one, from whom nobody could take the partition over.
    function setReplicas(bytes32 topic, uint32 partition, uint32 epoch, address[] calldata replicas) external {
        uint256 number = _liveBroker();
        require(partition < _topic(topic).partitions, "Topics: no such partition");
        uint256 lease = _leases[topic][partition];
        require(_leader(lease) == number, "Topics: only the partition's leader changes its replicas");
        require(uint32(lease) == epoch && epoch < LAST_EPOCH, "Topics: the lease is of another epoch");
        require(!_changedNow(lease), "Topics: the lease was changed in this block; try again in another");
        uint256 n = replicas.length;
        uint256 before = _count(lease);
        require(n > 0 && n <= MAX_REPLICAS, "Topics: a partition has 1 to 7 replicas");
        require(n + 1 == before || n == before + 1, "Topics: replicas are added or taken away one by one");
        uint256 next = (epoch + 1) | number << 32 | n << 56 | _stamp();
        uint256 kept;
        bool leads;
        for (uint256 i = 0; i < n; i++) {
            uint256 r = _brokerOf[replicas[i]];
            require(r != 0, "Topics: a replica is no broker");
            require(!_holds(next, i, r), "Topics: a replica is named twice");
            if (_holds(lease, before, r)) kept++;
            else require(_attends(r), "Topics: only a live broker that attends becomes a replica");
            if (r == number) leads = true;
            next |= r << (64 + 24 * i);
        }
        require(leads, "Topics: the leader stays a replica; it hands its lease over first");
        require(kept == (n < before ? n : before), "Topics: replicas are added or taken away one by one");
        if (n < before) _checkLeaver(topic, partition, lease, next);
        _leases[topic][partition] = next;
        emit ReplicasChanged(topic, partition, msg.sender, epoch + 1, replicas);
    }

    /// Says which brokers are to keep a partition, or with an empty list that any may. The leader goes there step by
    /// step with setReplicas, as far as these brokers are there; the wish stays until there is another.
    function wantReplicas(bytes32 topic, uint32 partition, address[] calldata replicas) external {
        require(partition < _owned(topic).partitions, "Topics: no such partition");
        uint256 n = replicas.length;
        require(n <= MAX_REPLICAS, "Topics: a partition has 1 to 7 replicas");
        uint256 wanted = n << 56;
        for (uint256 i = 0; i < n; i++) {
            uint256 r = _brokerOf[replicas[i]];
            require(r != 0, "Topics: a replica is no broker");
            require(!_holds(wanted, i, r), "Topics: a replica is named twice");
            wanted |= r << (64 + 24 * i);
        }
        _wanted[topic][partition] = wanted;
        emit ReplicasWanted(topic, partition, replicas);
    }

    // One that attends leaves when enough others are left. Seven are the most that there can be, so where seven are
    // wanted one leaves before another comes.
    function _checkLeaver(bytes32 topic, uint256 partition, uint256 lease, uint256 next) private view {
        uint256 n = _count(next);
        uint256 leaver;
        for (uint256 i = 0; i <= n; i++) {
            uint256 r = _replica(lease, i);
            if (!_holds(next, n, r)) leaver = r;
        }
        if (!_attends(leaver)) return;
        uint256 needed = _count(_wanted[topic][partition]);
        if (needed == 0) needed = _topics[topic].replicas;
        if (needed == MAX_REPLICAS) needed--;
        uint256 left;
        for (uint256 i = 0; i < n; i++) {
            if (_attends(_replica(next, i))) left++;
        }
        require(
            left >= needed, "Topics: a replica that attends is taken away only when enough others do; add another one first"
        );
    }

    // Moves a lease to a replica in the next epoch; false if it is stale or the broker no replica.
    function _pass(bytes32 topic, uint32 partition, uint32 epoch, uint256 to, address account) private returns (bool) {
        uint256 lease = _leases[topic][partition];
        if (
            lease == 0 || uint32(lease) != epoch || epoch >= LAST_EPOCH || !_holds(lease, _count(lease), to)
                || _changedNow(lease) || _topics[topic].place == 0
        ) return false;
        _leases[topic][partition] = (uint232(lease) & ~uint256(type(uint56).max)) | to << 32 | (epoch + 1) | _stamp();
        emit LeaseChanged(topic, partition, account, epoch + 1);
        return true;
    }

    // Gives new partitions their replicas, round robin over the live brokers; the first leads.
    function _placePartitions(bytes32 topic, uint256 from, uint256 to, uint256 replicas) internal {
        uint24[] memory live = _live;
        uint256 n = live.length;
        require(replicas > 0 && replicas <= MAX_REPLICAS, "Topics: a partition has 1 to 7 replicas");
        require(replicas <= n, "Topics: there are fewer live brokers than replicas were asked for");
        uint256 turn = _placed;
        _placed = turn + to - from;
        for (uint256 p = from; p < to; p++) {
            address[] memory accounts = new address[](replicas);
            uint256 first = turn % n;
            uint256 lease = 1 | uint256(live[first]) << 32 | replicas << 56 | uint256(live[first]) << 64;
            accounts[0] = _brokers[live[first] - 1].account;
            for (uint256 i = 1; i < replicas; i++) {
                // The others follow at a distance that changes, so that a broker's partitions go to all when it fails.
                uint256 r = live[(first + 1 + (turn / n + i - 1) % (n - 1)) % n];
                lease |= r << (64 + 24 * i);
                accounts[i] = _brokers[r - 1].account;
            }
            _leases[topic][p] = lease;
            emit ReplicasChanged(topic, uint32(p), accounts[0], 1, accounts);
            turn++;
        }
    }

    // ---------------------------------------------------------------- reading

    function _leader(uint256 lease) internal pure returns (uint256) {
        return lease >> 32 & 0xffffff;
    }

    function _count(uint256 lease) private pure returns (uint256) {
        return lease >> 56 & 0xff;
    }

    function _replica(uint256 lease, uint256 i) private pure returns (uint256) {
        return lease >> (64 + 24 * i) & 0xffffff;
    }

    function _stamp() private view returns (uint256) {
        return block.number << 232;
    }

    function _changedNow(uint256 lease) private view returns (bool) {
        return lease >> 232 == uint24(block.number);
    }

    // Whether one of the first n replicas is this broker.
    function _holds(uint256 lease, uint256 n, uint256 number) private pure returns (bool) {
        for (uint256 i = 0; i < n; i++) {
            if (_replica(lease, i) == number) return true;
        }
        return false;
    }

    function _readLease(bytes32 topic, uint256 partition) internal view returns (Lease memory l) {
        uint256 lease = _leases[topic][partition];
        if (lease == 0) return l;
        l.leader = _brokers[_leader(lease) - 1].account;
        l.epoch = uint32(lease);
        l.replicas = _accounts(lease);
        l.wanted = _accounts(_wanted[topic][partition]);
    }

    function _accounts(uint256 lease) private view returns (address[] memory list) {
        list = new address[](_count(lease));
        for (uint256 i = 0; i < list.length; i++) {
            list[i] = _brokers[_replica(lease, i) - 1].account;
        }
    }
}

pragma solidity 0.8.37;

import {LibString} from "solady/src/utils/LibString.sol";
import {Leases} from "./Leases.sol";

/// Topics: creation, change and deletion, keys of encrypted ones, pseudonyms.
abstract contract TopicAdmin is Leases {
    struct Info {
        bytes32 id;
        string name;
        address owner;
        address auditor;
        bool encrypted;
        bool deleted;
        uint64 created; // height; 0: no such topic
        uint32 keyEpoch;
        uint32 pseudonymEpoch;
        bytes config;
        uint8 replicas; // of a partition, unless its owner wants others
        Lease[] leases; // by partition
    }

    // ---------------------------------------------------------------- topics

    /// Creates a topic and returns its id, keccak256(abi.encode(name, number)), where number counts all topics ever. The
    /// tenant's owner creates, and who the tenant allows CREATE on the prefix "tenant."; the creator owns the topic. Any
    /// live broker creates the brokers' own "_bps.offsets", which nobody owns.
    function createTopic(
        string calldata name,
        uint32 partitions,
        uint16 replicas,
        bytes calldata config,
        address auditor,
        bool encrypted
    ) external returns (bytes32 id) {
        bytes32 hash = keccak256(bytes(name));
        bytes32 tenant = _tenantOf(name);
        Tenant storage owner = _tenant(tenant);
        address caller = _administrator(tenant);
        if (tenant == BROKERS_TENANT) {
            _liveBroker();
            require(
                hash == OFFSETS_NAME && partitions == OFFSETS_PARTITIONS && !encrypted && auditor == address(0),
                "Topics: the tenant _bps has the topic _bps.offsets of 16 partitions, no other"
            );
            caller = address(0);
        } else {
            require(
                caller == owner.owner || _mayCreate(tenant, owner, caller),
                "Topics: only the tenant's owner, and who it allows CREATE on all its topics, creates topics"
            );
        }
        require(config.length <= MAX_CONFIG, "Topics: the configuration has more than 4096 bytes");
        require(_topicOf[hash] == 0, "Topics: there is a topic of this name");
        require(owner.topicsUsed < owner.topics, "Topics: the tenant has as many topics as it may");
        id = keccak256(abi.encode(name, ++_number));
        owner.topicsUsed++;
        _topicList.push(id);
        _topicOf[hash] = id;
        Topic storage t = _topics[id];
        t.owner = caller;
        t.place = uint32(_topicList.length);
        t.replicas = uint8(replicas > MAX_REPLICAS ? 0 : replicas);
        t.encrypted = encrypted;
        t.auditor = auditor;
        t.pseudonymEpoch = 1;
        t.tenant = tenant;
        t.created = uint64(block.number);
        t.name = name;
        t.config = config;
        emit TopicCreated(id, tenant, name, caller, auditor, encrypted, partitions, config);
        _grow(id, t, owner, partitions);
    }

    /// Gives a topic more partitions, placed as those of a new topic.
    function addPartitions(bytes32 id, uint32 total) external {
        Topic storage t = _owned(id);
        require(total > t.partitions, "Topics: the topic has as many partitions; their number never falls");
        _grow(id, t, _tenants[t.tenant], total);
        _changed(id, t);
    }

    function _grow(bytes32 id, Topic storage t, Tenant storage owner, uint32 total) private {
        uint32 before = t.partitions;
        require(total > 0 && total <= MAX_PARTITIONS, "Topics: a topic has 1 to 1024 partitions");
        require(total - before <= MAX_NEW_PARTITIONS, "Topics: more than 256 new partitions in one call");
        require(
            uint256(owner.partitionsUsed) + total - before <= owner.partitions,
            "Topics: the tenant has not as many partitions left"
        );
        owner.partitionsUsed += total - before;
        t.partitions = total;
        _placePartitions(id, before, total, t.replicas);
    }

    /// Gives a topic another configuration; the brokers read it, the contract does not.
    function configure(bytes32 id, bytes calldata config) external {
        Topic storage t = _owned(id);
        require(config.length <= MAX_CONFIG, "Topics: the configuration has more than 4096 bytes");
        t.config = config;
        _changed(id, t);
    }

    /// Deletes a topic and frees its quota. What the ledger knows of it stays: its name may be taken again, by a topic
    /// with another id.
    function deleteTopic(bytes32 id) external {
        Topic storage t = _owned(id);
        bytes32 last = _topicList[_topicList.length - 1];
        _topicList[t.place - 1] = last;
        _topics[last].place = t.place;
        _topicList.pop();
        t.place = 0;
        delete _topicOf[keccak256(bytes(t.name))];
        Tenant storage owner = _tenants[t.tenant];
        owner.topicsUsed--;
        owner.partitionsUsed -= t.partitions;
        emit TopicDeleted(id, t.name);
    }

    /// Gives a topic another owner.
    function setOwner(bytes32 id, address account) external {
        Topic storage t = _owned(id);
        t.owner = account;
        _changed(id, t);
    }

    function _changed(bytes32 id, Topic storage t) private {
        emit TopicChanged(id, t.owner, t.partitions, t.pseudonymEpoch, t.config);
    }

    // Checks a topic's name and returns the id of its tenant: what stands before the first dot.
    function _tenantOf(string calldata name) private pure returns (bytes32) {
        bytes calldata b = bytes(name);
        require(
            b.length <= MAX_NAME && LibString.is7BitASCII(name, NAME_CHARS),
            "Topics: a topic's name has at most 249 of the characters a-z, A-Z, 0-9, ., _ and -"
        );
        uint256 n;
        while (n < b.length && b[n] != ".") n++;
        require(n > 0 && n + 1 < b.length, "Topics: a topic's name is its tenant's, a dot and more");
        return keccak256(b[:n]);
    }

    // ---------------------------------------------------------------- keys

    /// Publishes the caller's key, to which owners of topics seal theirs. Each account does it for itself.
    function register(bytes calldata key) external {
        require(key.length > 0 && key.length <= MAX_SEAL_KEY, "Topics: a sealing key has 1 to 2048 bytes");
        _sealKeys[msg.sender] = key;
        emit SealKeySet(msg.sender, key);
    }

    function sealKey(address account) external view returns (bytes memory) {
        return _sealKeys[account];
    }

    /// Gives readers the key of an epoch of an encrypted topic, sealed to each. The number after the current one starts
    /// the next epoch; it never goes back. In epochs that began before further readers may be added.
    function setKeys(bytes32 id, uint32 epoch, address[] calldata readers, bytes[] calldata keys) external {
        Topic storage t = _owned(id);
        require(t.encrypted, "Topics: the topic is not encrypted");
        require(
            readers.length > 0 && readers.length <= MAX_READERS && readers.length == keys.length,
            "Topics: 1 to 64 readers, each with a sealed key"
        );
        require(epoch > 0 && epoch <= uint256(t.keyEpoch) + 1, "Topics: the next key epoch is the current one + 1");
        if (epoch > t.keyEpoch) t.keyEpoch = epoch;
        for (uint256 i = 0; i < readers.length; i++) {
            require(keys[i].length > 0 && keys[i].length <= MAX_SEALED, "Topics: a sealed key has 1 to 2048 bytes");
            _sealed[id][epoch][readers[i]] = keys[i];
            emit KeysSet(id, epoch, readers[i], keys[i]);
        }
    }

    /// The newest key epoch of a topic; 0 before the first.
    function keyEpoch(bytes32 id) external view returns (uint32) {
        return _topics[id].keyEpoch;
    }

    function sealedKey(bytes32 id, uint32 epoch, address reader) external view returns (bytes memory) {
        return _sealed[id][epoch][reader];
    }

    // ---------------------------------------------------------------- pseudonyms

    /// Revokes a pseudonym for ever. The auditor does it, and who owns the topic.
    function revokePseudonym(bytes32 id, address pseudonym) external {
        Topic storage t = _topic(id);
        if (_administrator(t.tenant) != t.auditor) _owned(id);
        require(t.auditor != address(0), "Topics: the topic has no auditor, so it knows no pseudonyms");
        if (_pseudonymRevoked[id][pseudonym]) return;
        _pseudonymRevoked[id][pseudonym] = true;
        emit PseudonymRevoked(id, pseudonym);
    }

    /// Starts another epoch of pseudonyms: certificates of older ones are void. Only the auditor does.
    function nextPseudonyms(bytes32 id) external {
        Topic storage t = _topic(id);
        require(_administrator(t.tenant) == t.auditor, "Topics: only the topic's auditor does this");
        t.pseudonymEpoch++;
        _changed(id, t);
    }

    function pseudonymEpoch(bytes32 id) external view returns (uint32) {
        return _topics[id].pseudonymEpoch;
    }

    function pseudonymRevoked(bytes32 id, address pseudonym) external view returns (bool) {
        return _pseudonymRevoked[id][pseudonym];
    }

    // ---------------------------------------------------------------- reading

    /// The id of the topic that has this name now; zero if there is none.
    function topicId(string calldata name) external view returns (bytes32) {
        return _topicOf[keccak256(bytes(name))];
    }

    /// A topic, deleted ones too, with the leases of its partitions.
    function topic(bytes32 id) external view returns (Info memory) {
        return _info(id);
    }

    /// At most n topics from place from on, and how many there are. A page ends earlier where it would have more than
    /// 1024 partitions, or fewer with long configurations, so that no tenant makes it too expensive to read; go on after
    /// as many as came. Read all pages in one block's state: a deletion moves the last topic.
    function topicPage(uint256 from, uint256 n) external view returns (Info[] memory page, uint256 total) {
        total = _topicList.length;
        n = _page(total, from, n);
        uint256 size;
        for (uint256 i = 0; i < n; i++) {
            Topic storage t = _topics[_topicList[from + i]];
            size += t.partitions + t.config.length / 256;
            if (size > MAX_PAGE && i > 0) n = i;
        }
        page = new Info[](n);
        for (uint256 i = 0; i < n; i++) {
            page[i] = _info(_topicList[from + i]);
        }
    }

    function _info(bytes32 id) private view returns (Info memory r) {
        Topic storage t = _topics[id];
        r.id = id;
        r.name = t.name;
        r.owner = t.owner;
        r.auditor = t.auditor;
        r.encrypted = t.encrypted;
        r.created = t.created;
        r.deleted = t.created != 0 && t.place == 0;
        r.keyEpoch = t.keyEpoch;
        r.pseudonymEpoch = t.pseudonymEpoch;
        r.config = t.config;
        r.replicas = t.replicas;
        r.leases = new Lease[](t.partitions);
        for (uint256 p = 0; p < r.leases.length; p++) {
            r.leases[p] = _readLease(id, p);
        }
    }
}

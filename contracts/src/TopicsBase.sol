pragma solidity 0.8.37;

interface INodes {
    function node(bytes calldata peerId) external view returns (address account, uint8 roles);
}

/// State, events and shared checks of Topics.
abstract contract TopicsBase {
    struct Tenant {
        string name;
        address owner; // zero: nobody administers it
        uint64 bytesPerSecond;
        uint32 connections; // 0: no such tenant
        uint32 topics; // it may have
        uint32 partitions; // of all its topics together
        uint32 topicsUsed;
        uint32 partitionsUsed;
    }

    struct Node {
        address account;
        uint16 port;
        uint16 place; // in _live + 1; 0: not live
        uint64 commits; // counted
        uint64 until; // Unix seconds; the ledger counts on it until then
        string host;
        bytes peerId; // text form
    }

    struct Topic {
        address owner;
        uint32 partitions;
        uint32 place; // in _topicList + 1; 0: deleted
        uint8 replicas; // of a new partition
        bool encrypted;
        address auditor; // who answers for pseudonyms; zero: none
        uint32 keyEpoch; // 0: no key yet
        uint32 pseudonymEpoch;
        bytes32 tenant; // keccak256(name)
        uint64 created; // height; 0: no such topic
        string name;
        bytes config;
    }

    struct Entry {
        uint8 resource;
        uint8 pattern;
        uint8 operation;
        uint8 permission;
        uint8 kind; // of principal
        address account;
        string name;
        string host;
    }

    /// One rule, in the numbers of the Kafka protocol.
    struct Acl {
        uint8 resource; // 2 topic, 3 group
        uint8 pattern; // 3 literal, 4 prefixed
        string name;
        string principal; // User:*, User:0x<40 lower-case digits> or Pseudonym:0x<40 lower-case digits>
        string host;
        uint8 operation;
        uint8 permission; // 2 deny, 3 allow
    }

    struct Mark {
        uint64 seq; // of the last checkpoint, from 1 on
        uint64 leaves;
        uint64 height; // of its block
        bytes32 root;
    }

    struct Journal {
        uint64 count; // of operations ever
        uint64 height; // of the block with the last of them
        bytes32 root;
    }

    struct Tally {
        uint32 pardons; // of the account when this was written; another number: nothing counts
        uint32 minute; // when this was written
        uint8 lowered; // by this broker, what it gave back taken off, as of that minute
        uint64 given; // height of the block in which this broker gave a point back last
    }

    struct Repute {
        uint32 pardons;
        uint32 minute; // when this was written
        uint16 charged; // kinds of operations whose refusal was charged in that minute, as bits
        uint8 lost; // points below the default, as of that minute
    }

    struct Kept {
        bool known;
        int64 offset;
    }

    address internal constant MEMBERS = 0x0000000000000000000000000000000000000B02;
    uint8 internal constant BROKER = 4; // role of Members

    bytes32 internal constant BROKERS_TENANT = keccak256("_bps");
    bytes32 internal constant OFFSETS_NAME = keccak256("_bps.offsets");
    uint32 internal constant OFFSETS_PARTITIONS = 16;

    uint256 internal constant MAX_TENANTS = 4096;
    uint256 internal constant MAX_TENANT_NAME = 63; // bytes
    uint256 internal constant MAX_BROKERS = 4096; // ever registered
    uint256 internal constant MAX_ATTENDANCE = 3600; // seconds
    uint256 internal constant MAX_HOST = 255; // bytes
    uint256 internal constant MAX_PEER_ID = 128; // bytes
    uint256 internal constant MAX_NAME = 249; // bytes of a topic, a group or a prefix of them
    uint256 internal constant MAX_PARTITIONS = 1024; // of a topic
    uint256 internal constant MAX_NEW_PARTITIONS = 256; // in one call
    uint256 internal constant MAX_PAGE = 1024; // partitions of all topics of a page, and 256 bytes of configuration as one
    uint256 internal constant MAX_REPLICAS = 7;
    uint256 internal constant MAX_CONFIG = 4096; // bytes
    uint256 internal constant MAX_ACLS = 4096; // of a tenant
    uint256 internal constant MAX_ACLS_CALL = 128; // in one call
    uint256 internal constant MAX_ACL_HOST = 64; // bytes
    uint256 internal constant MAX_SEAL_KEY = 2048; // bytes
    uint256 internal constant MAX_SEALED = 2048; // bytes of a sealed epoch key
    uint256 internal constant MAX_READERS = 64; // in one call
    uint256 internal constant MAX_CLAIMS = 512; // in one call
    uint256 internal constant MAX_OPERATIONS = 512; // in one commit
    uint256 internal constant MAX_ENTRIES = 98304; // bytes of a commit's operations
    uint256 internal constant MAX_COMMIT = 122880; // bytes of a commit's call data
    uint256 internal constant MAX_CHECKPOINTS = 256; // in one commit
    uint256 internal constant MAX_STANDINGS = 128; // in one commit
    uint256 internal constant MAX_OFFSETS = 256; // in one commit
    uint256 internal constant MAX_TOKEN_SECONDS = 86400;
    uint256 internal constant TOKEN_SKEW = 60; // seconds that a token's clock may be ahead, as brokers allow
    uint8 internal constant ADMIN_SCOPE = 2;

    uint8 internal constant REPUTATION = 100; // of who never was reported, and the most
    uint8 internal constant REPUTATION_MIN = 20; // below it an account administers nothing in the tenant and brokers refuse it there
    uint8 internal constant REFUSED_COSTS = 5; // a kind of operation that was refused in a minute, once or often
    uint16 internal constant KINDS = 0xdf8; // of operations on topics and groups, by Kafka's numbers 3 to 8, 10 and 11, as bits
    uint8 internal constant BROKER_LOWERS = 60; // one broker alone, while there are others

    address internal transient _acting; // for whom relay calls

    mapping(bytes32 => Tenant) internal _tenants; // keccak256(name)
    bytes32[] internal _tenantList;
    Node[] internal _brokers; // number - 1
    mapping(address => uint256) internal _brokerOf; // account -> number
    mapping(bytes32 => uint256) internal _brokerOfPeer; // keccak256(peerId) -> number
    uint24[] internal _live; // numbers
    mapping(bytes32 => Topic) internal _topics;
    bytes32[] internal _topicList; // those that are not deleted
    mapping(bytes32 => bytes32) internal _topicOf; // keccak256(name) -> id
    uint256 internal _number; // of topics ever
    uint256 internal _placed; // partitions ever
    mapping(bytes32 => mapping(uint256 => uint256)) internal _leases; // see Leases
    mapping(bytes32 => Entry[]) internal _acls; // tenant
    mapping(bytes32 => uint256) internal _aclPlace; // see Tenants._aclKey -> place + 1
    mapping(address => bytes) internal _sealKeys;
    mapping(bytes32 => mapping(uint256 => mapping(address => bytes))) internal _sealed; // topic, epoch, reader
    mapping(bytes32 => mapping(address => bool)) internal _pseudonymRevoked;
    mapping(bytes32 => Mark) internal _marks;
    mapping(bytes32 => Journal) internal _journals;
    mapping(bytes32 => mapping(address => Repute)) internal _standings; // tenant, account
    mapping(address => mapping(bytes32 => mapping(address => Tally))) internal _tallies; // broker, tenant, account
    mapping(bytes32 => mapping(address => uint32)) internal _pardons; // tenant, account; tenant zero: of all tenants
    mapping(bytes32 => Kept) internal _offsets; // keccak256(group, topic, partition)
    mapping(address => uint64) internal _tokensAfter; // tokens issued by then are void
    mapping(bytes32 => mapping(uint256 => uint256)) internal _wanted; // as _leases, without leader and epoch; 0: any

    event TenantSet(
        bytes32 indexed tenant,
        string name,
        address owner,
        uint64 bytesPerSecond,
        uint32 connections,
        uint32 topics,
        uint32 partitions
    );
    event BrokerSet(address indexed account, uint32 id, string host, uint16 port, bytes peerId, bool live);
    event TopicCreated(
        bytes32 indexed topic,
        bytes32 indexed tenant,
        string name,
        address owner,
        address auditor,
        bool encrypted,
        uint32 partitions,
        bytes config
    );
    event TopicChanged(
        bytes32 indexed topic, address owner, uint32 partitions, uint32 pseudonymEpoch, bytes config
    );
    event TopicDeleted(bytes32 indexed topic, string name);
    event LeaseChanged(bytes32 indexed topic, uint32 partition, address leader, uint32 epoch);
    event ReplicasChanged(bytes32 indexed topic, uint32 partition, address leader, uint32 epoch, address[] replicas);
    event ReplicasWanted(bytes32 indexed topic, uint32 partition, address[] replicas);
    event Granted(bytes32 indexed tenant, Acl entry);
    event Revoked(bytes32 indexed tenant, Acl entry);
    event SealKeySet(address indexed account, bytes sealKey);
    event KeysSet(bytes32 indexed topic, uint32 epoch, address indexed reader, bytes sealedKey);
    event PseudonymRevoked(bytes32 indexed topic, address pseudonym);
    event TokensCancelled(address indexed account, uint64 issuedUntil);
    event Committed(address indexed broker, uint64 number);
    event Checkpointed(bytes32 indexed topic, uint64 indexed seq, bytes32 root, uint64 leaves, address broker);
    event Operated(
        bytes32 indexed topic,
        address indexed broker,
        uint64 previousHeight,
        bytes32 previousRoot,
        uint32 count,
        bytes32 root
    );
    event StandingChanged(
        bytes32 indexed tenant, // zero: all, by a pardon
        address indexed account,
        address indexed broker,
        uint8 reputation,
        uint64 time, // Unix seconds: the reputation rises from there on
        uint16 refused,
        uint32 honest
    );
    event OffsetCommitted(bytes32 indexed topic, bytes32 indexed group, uint32 partition, int64 offset);

    // ---------------------------------------------------------------- shared

    // For whom an administrative call is made: the sender, or the account whose token the sender relays.
    function _caller() internal view returns (address) {
        return msg.sender == address(this) ? _acting : msg.sender;
    }

    // The caller, who must not be blacklisted in the tenant.
    function _administrator(bytes32 tenantId) internal view returns (address who) {
        who = _caller();
        require(
            reputation(tenantId, who) >= REPUTATION_MIN,
            "Topics: the account's reputation in this tenant is below 20; it rises again within minutes, and governance can pardon it"
        );
    }

    function _liveBroker() internal view returns (uint256 number) {
        number = _brokerOf[msg.sender];
        require(number != 0 && _brokers[number - 1].place != 0, "Topics: only a registered, live broker calls this");
    }

    function _isLive(uint256 number) internal view returns (bool) {
        return number != 0 && number <= _brokers.length && _brokers[number - 1].place != 0;
    }

    // Whether a broker is live and has said so of late.
    function _attends(uint256 number) internal view returns (bool) {
        return _isLive(number) && _brokers[number - 1].until >= block.timestamp;
    }

    function _tenant(bytes32 id) internal view returns (Tenant storage t) {
        t = _tenants[id];
        require(t.connections != 0, "Topics: no such tenant; governance sets tenants by proposal");
    }

    function _topic(bytes32 id) internal view returns (Topic storage t) {
        t = _topics[id];
        require(t.place != 0, "Topics: no such topic");
    }

    // A topic that the caller may change: his own or one of his tenant.
    function _owned(bytes32 id) internal view returns (Topic storage t) {
        t = _topic(id);
        address who = _administrator(t.tenant);
        require(
            who == t.owner || who == _tenants[t.tenant].owner, "Topics: only the topic's or the tenant's owner does this"
        );
    }

    function _page(uint256 total, uint256 from, uint256 n) internal pure returns (uint256) {
        if (from >= total) return 0;
        return n < total - from ? n : total - from;
    }

    function _minute() internal view returns (uint32) {
        return uint32(block.timestamp / 60);
    }

    // What is left now of points that were lost, or counted, by a minute: each full minute of the clock takes a quarter
    // away. Minutes of the clock, not of the account, give one result however often it is asked in between.
    function _remaining(uint256 points, uint256 minute) internal view returns (uint256) {
        for (uint256 now_ = _minute(); minute < now_ && points > 0; minute++) {
            points = points * 3 / 4;
        }
        return points;
    }

    // How often an account was pardoned in a tenant or in all: what was written at another number does not count.
    function _pardonsOf(bytes32 tenantId, address account) internal view returns (uint32) {
        return _pardons[tenantId][account] + _pardons[0][account];
    }

    /// An account's reputation in a tenant (keccak256 of its name), 0 to 100, as of the block's time; below 20 the account
    /// is blacklisted there.
    function reputation(bytes32 tenantId, address account) public view returns (uint8) {
        Repute storage s = _standings[tenantId][account];
        if (s.pardons != _pardonsOf(tenantId, account)) return REPUTATION;
        return uint8(REPUTATION - _remaining(s.lost, s.minute));
    }
}

pragma solidity 0.8.37;

import {LibString} from "solady/src/utils/LibString.sol";
import {TopicsBase} from "./TopicsBase.sol";

/// Tenants and their rules of access.
abstract contract Tenants is TopicsBase {
    // Bit c: the character c may stand in a name.
    uint128 internal constant TENANT_CHARS = 0x07fffffe87fffffe03ff200000000000; // [a-zA-Z0-9_-]
    uint128 internal constant NAME_CHARS = 0x07fffffe87fffffe03ff600000000000; // and .
    uint128 internal constant HOST_CHARS = 0x07fffffe87fffffe07ffe40000000000; // and * / :

    uint8 private constant USER_ALL = 0;
    uint8 private constant USER = 1;
    uint8 private constant PSEUDONYM = 2;

    uint8 private constant RESOURCE_TOPIC = 2;
    uint8 private constant RESOURCE_GROUP = 3;
    uint8 private constant LITERAL = 3;
    uint8 private constant PREFIXED = 4;
    uint8 private constant CREATE = 5;
    uint8 private constant DENY = 2;
    uint8 private constant ALLOW = 3;

    // ---------------------------------------------------------------- governance

    /// Makes a tenant or gives it another owner and other quotas. Quotas below what it uses take nothing away, they
    /// only keep it from taking more. Only Members calls this.
    function setTenant(
        string calldata name,
        address owner,
        uint64 bytesPerSecond,
        uint32 connections,
        uint32 maxTopics,
        uint32 maxPartitions
    ) external {
        require(msg.sender == MEMBERS, "Topics: tenants are set by proposal to Members");
        require(
            bytes(name).length > 0 && bytes(name).length <= MAX_TENANT_NAME
                && LibString.is7BitASCII(name, TENANT_CHARS),
            "Topics: a tenant's name has 1 to 63 of the characters a-z, A-Z, 0-9, _ and -"
        );
        require(bytesPerSecond > 0 && connections > 0, "Topics: a tenant has at least one byte per second and connection");
        bytes32 id = keccak256(bytes(name));
        require(id != BROKERS_TENANT, "Topics: the tenant _bps is the brokers' own");
        _setTenant(id, name, owner, bytesPerSecond, connections, maxTopics, maxPartitions);
    }

    /// Gives an account its default reputation back in a tenant, or with an empty name in all, whoever lowered it. Only
    /// Members calls this.
    function pardon(address account, string calldata name) external {
        require(msg.sender == MEMBERS, "Topics: accounts are pardoned by proposal to Members");
        bytes32 id;
        if (bytes(name).length > 0) {
            id = keccak256(bytes(name));
            _tenant(id);
        }
        _pardons[id][account]++;
        emit StandingChanged(id, account, msg.sender, REPUTATION, uint64(block.timestamp), 0, 0);
    }

    function _setTenant(
        bytes32 id,
        string memory name,
        address owner,
        uint64 bytesPerSecond,
        uint32 connections,
        uint32 maxTopics,
        uint32 maxPartitions
    ) internal {
        Tenant storage t = _tenants[id];
        if (t.connections == 0) {
            require(_tenantList.length < MAX_TENANTS, "Topics: the list of tenants is full");
            _tenantList.push(id);
            t.name = name;
        }
        t.owner = owner;
        t.bytesPerSecond = bytesPerSecond;
        t.connections = connections;
        t.topics = maxTopics;
        t.partitions = maxPartitions;
        emit TenantSet(id, name, owner, bytesPerSecond, connections, maxTopics, maxPartitions);
    }

    // ---------------------------------------------------------------- rules of access

    /// Adds rules to a tenant; those that it has stay as they are. The tenant's owner adds any, a topic's owner those of
    /// his topic.
    function grant(string calldata name_, Acl[] calldata entries) external {
        (bytes32 id, bool byOwner) = _begin(name_, entries.length);
        Entry[] storage list = _acls[id];
        for (uint256 i = 0; i < entries.length; i++) {
            Acl calldata a = entries[i];
            _requireRight(a, byOwner);
            Entry memory e = _entry(name_, a);
            bytes32 key = _aclKey(id, e);
            if (_aclPlace[key] != 0) continue;
            require(list.length < MAX_ACLS, "Topics: the tenant's list of rules is full");
            list.push(e);
            _aclPlace[key] = list.length;
            emit Granted(id, a);
        }
    }

    /// Takes rules away; those that the tenant has not are passed over.
    function revoke(string calldata name_, Acl[] calldata entries) external {
        (bytes32 id, bool byOwner) = _begin(name_, entries.length);
        Entry[] storage list = _acls[id];
        for (uint256 i = 0; i < entries.length; i++) {
            Acl calldata a = entries[i];
            _requireRight(a, byOwner);
            bytes32 key = _aclKey(id, _entry(name_, a));
            uint256 place = _aclPlace[key];
            if (place == 0) continue;
            if (place != list.length) {
                Entry memory last = list[list.length - 1];
                list[place - 1] = last;
                _aclPlace[_aclKey(id, last)] = place;
            }
            list.pop();
            delete _aclPlace[key];
            emit Revoked(id, a);
        }
    }

    function _begin(string calldata name_, uint256 n) private view returns (bytes32 id, bool byOwner) {
        require(n <= MAX_ACLS_CALL, "Topics: more than 128 rules in one call");
        id = keccak256(bytes(name_));
        byOwner = _administrator(id) == _tenant(id).owner;
    }

    function _requireRight(Acl calldata a, bool byOwner) private view {
        if (byOwner) return;
        bytes32 topic = _topicOf[keccak256(bytes(a.name))];
        require(
            a.resource == RESOURCE_TOPIC && a.pattern == LITERAL && topic != 0 && _topics[topic].owner == _caller(),
            "Topics: only the tenant's owner sets its rules, and a topic's owner those of his topic"
        );
    }

    // A rule as it is kept; it reverts on one that is malformed or reaches beyond the tenant.
    function _entry(string calldata name_, Acl calldata a) private pure returns (Entry memory e) {
        require(
            a.resource == RESOURCE_TOPIC || a.resource == RESOURCE_GROUP, "Topics: rules are on topics (2) and groups (3)"
        );
        require(a.pattern == LITERAL || a.pattern == PREFIXED, "Topics: a pattern is literal (3) or prefixed (4)");
        require(
            a.operation >= 2 && a.operation <= 12 && a.operation != 9, "Topics: no such operation on a topic or a group"
        );
        require(a.permission == DENY || a.permission == ALLOW, "Topics: a rule denies (2) or allows (3)");
        bytes calldata name = bytes(a.name);
        uint256 n = bytes(name_).length;
        require(
            name.length > n && name.length <= MAX_NAME && name[n] == "."
                && keccak256(name[:n]) == keccak256(bytes(name_)) && LibString.is7BitASCII(a.name, NAME_CHARS),
            "Topics: the name of a rule begins with its tenant and a dot, and has 249 name characters at most"
        );
        require(
            bytes(a.host).length > 0 && bytes(a.host).length <= MAX_ACL_HOST && LibString.is7BitASCII(a.host, HOST_CHARS),
            "Topics: the host of a rule is * or an address of at most 64 characters"
        );
        (e.kind, e.account) = _principal(bytes(a.principal));
        e.resource = a.resource;
        e.pattern = a.pattern;
        e.operation = a.operation;
        e.permission = a.permission;
        e.name = a.name;
        e.host = a.host;
    }

    function _principal(bytes calldata p) private pure returns (uint8 kind, address account) {
        if (keccak256(p) == keccak256("User:*")) return (USER_ALL, address(0));
        uint256 pos = 7;
        if (p.length == 47 && bytes7(p[:7]) == "User:0x") {
            kind = USER;
        } else if (p.length == 52 && bytes12(p[:12]) == "Pseudonym:0x") {
            kind = PSEUDONYM;
            pos = 12;
        }
        require(kind != 0, "Topics: a principal is User:*, User:0x... or Pseudonym:0x...");
        uint256 value;
        for (; pos < p.length; pos++) {
            uint256 c = uint8(p[pos]);
            if (c >= 0x30 && c <= 0x39) value = value << 4 | (c - 0x30);
            else if (c >= 0x61 && c <= 0x66) value = value << 4 | (c - 0x57);
            else revert("Topics: a principal's account has 40 lower-case hexadecimal digits");
        }
        account = address(uint160(value));
    }

    function _aclKey(bytes32 id, Entry memory e) private pure returns (bytes32) {
        return keccak256(
            abi.encode(id, e.resource, e.pattern, e.operation, e.permission, e.kind, e.account, e.name, e.host)
        );
    }

    // Whether the tenant lets an account create topics: a rule on the prefix "tenant." for exactly this account and any
    // host allows CREATE, and none like it denies it.
    function _mayCreate(bytes32 id, Tenant storage t, address account) internal view returns (bool) {
        Entry memory e = Entry(
            RESOURCE_TOPIC, PREFIXED, CREATE, ALLOW, USER, account, string.concat(t.name, "."), "*"
        );
        if (_aclPlace[_aclKey(id, e)] == 0) return false;
        e.permission = DENY;
        return _aclPlace[_aclKey(id, e)] == 0;
    }

    // ---------------------------------------------------------------- reading

    /// One tenant; connections 0 if there is none of this name.
    function tenant(string calldata name) external view returns (Tenant memory) {
        return _tenants[keccak256(bytes(name))];
    }

    /// At most n tenants from place from on, and how many there are. Tenants never move.
    function tenantPage(uint256 from, uint256 n) external view returns (Tenant[] memory page, uint256 total) {
        total = _tenantList.length;
        page = new Tenant[](_page(total, from, n));
        for (uint256 i = 0; i < page.length; i++) {
            page[i] = _tenants[_tenantList[from + i]];
        }
    }

    /// At most n rules of a tenant from place from on, and how many there are. Read all pages in one block's state:
    /// taking one away moves another.
    function aclPage(string calldata name, uint256 from, uint256 n)
        external
        view
        returns (Acl[] memory page, uint256 total)
    {
        Entry[] storage list = _acls[keccak256(bytes(name))];
        total = list.length;
        page = new Acl[](_page(total, from, n));
        for (uint256 i = 0; i < page.length; i++) {
            Entry memory e = list[from + i];
            page[i] = Acl(e.resource, e.pattern, e.name, _principalText(e.kind, e.account), e.host, e.operation, e.permission);
        }
    }

    function _principalText(uint8 kind, address account) private pure returns (string memory) {
        if (kind == USER_ALL) return "User:*";
        return string.concat(kind == USER ? "User:" : "Pseudonym:", LibString.toHexString(account));
    }
}

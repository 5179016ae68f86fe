pragma solidity 0.8.37;

interface IProducers {
    function active() external view returns (address[] memory);
    function quorum() external view returns (uint256);
    function isActive(address account) external view returns (bool);
    function revoke(address account) external;
}

interface ITopics {
    function setTenant(
        string calldata name,
        address owner,
        uint64 bytesPerSecond,
        uint32 connections,
        uint32 topics,
        uint32 partitions
    ) external;
    function pardon(address account, string calldata tenant) external;
    function revokeBroker(bytes calldata peerId) external;
}

/// Which nodes may connect and as what, which accounts may send transactions or deploy, and what the producers decided
/// about parameters and upgrades. Everything changes by proposal and the votes of a quorum of the current schedule's
/// accounts, or by the admin if genesis named one. It is part of the genesis state.
contract Members {
    struct Node {
        address account; // the producer's account, or who answers for the node
        uint8 roles; // bit 0 producer, bit 1 observer, bit 2 broker
        bytes peerId; // text form
    }

    struct Proposal {
        address proposer;
        uint64 createdAt; // seconds
        uint8 kind;
        bool done;
        bytes data; // abi.encode of the kind's arguments
        address[] approvals;
    }

    struct Change {
        uint64 height; // from this block on
        uint8 kind; // PARAMETER or UPGRADE
        uint64 number; // of the decision, from 1 on
        string name;
        bytes value; // a parameter's value; an upgrade's 32-byte digest
    }

    uint8 public constant PRODUCER = 1;
    uint8 public constant OBSERVER = 2;
    uint8 public constant BROKER = 4;

    uint8 public constant SET_NODE = 1; // (bytes peerId, address account, uint8 roles)
    uint8 public constant REMOVE_NODE = 2; // (bytes peerId)
    uint8 public constant RESTRICT_SENDERS = 3; // (bool on)
    uint8 public constant ALLOW_SENDER = 4; // (address account, bool allowed)
    uint8 public constant RESTRICT_DEPLOYERS = 5; // (bool on)
    uint8 public constant ALLOW_DEPLOYER = 6; // (address account, bool allowed)
    uint8 public constant PARAMETER = 7; // (uint64 height, string name, bytes value)
    uint8 public constant UPGRADE = 8; // (uint64 height, string name, bytes32 digest)
    uint8 public constant SET_ADMIN = 9; // (address account), zero: none

    uint8 public constant SET_TENANT = 10; // the arguments of Topics.setTenant
    uint8 public constant PARDON = 11; // (address account, string tenant), an empty name for all tenants

    uint256 public constant MAX_NODES = 4096;
    uint256 public constant MAX_LISTED = 65536; // accounts per list
    uint256 public constant MAX_DATA = 8192; // bytes of a proposal
    uint256 public constant NOTICE = 64; // blocks from the decision of a change to its height
    uint256 public constant MAX_CHANGES = 1024;
    uint256 public constant UPGRADE_PLACES = 64; // of MAX_CHANGES, the last, for upgrades alone
    uint256 public constant MAX_NAME = 64; // bytes of a change's name
    uint256 public constant MAX_VALUE = 32; // bytes of a change's value

    IProducers internal constant PRODUCERS = IProducers(0x0000000000000000000000000000000000000B01);
    ITopics internal constant TOPICS = ITopics(0x0000000000000000000000000000000000000b03);

    address internal _admin;
    bool internal _sendersRestricted;
    bool internal _deployersRestricted;
    uint64 internal _proposalSeconds; // how long a proposal stays open
    Node[] internal _nodes;
    mapping(bytes32 => uint256) internal _nodePlace; // keccak256(peerId) -> place + 1
    mapping(address => uint256) internal _producerNodes; // nodes of an account with the producer role
    mapping(address => uint256) internal _senderPlace; // place + 1
    address[] internal _senders;
    mapping(address => uint256) internal _deployerPlace;
    address[] internal _deployers;
    Proposal[] internal _proposals;
    mapping(uint256 => mapping(address => bool)) internal _approved;
    Change[] internal _changes;
    mapping(bytes32 => uint256) internal _changePlace; // keccak256(abi.encode(kind, height, name)) -> place + 1
    uint64 internal _decisions; // how many there were

    event NodeSet(bytes peerId, address indexed account, uint8 roles);
    event NodeRemoved(bytes peerId, address indexed account);
    event SendersRestricted(bool on);
    event SenderAllowed(address indexed account, bool allowed);
    event DeployersRestricted(bool on);
    event DeployerAllowed(address indexed account, bool allowed);
    event ChangeDecided(uint64 indexed height, uint8 kind, string name, bytes value);
    event AdminSet(address indexed account);
    event Proposed(uint256 indexed id, address indexed proposer, uint8 kind, bytes data);
    event Approved(uint256 indexed id, address indexed account, uint256 approvals, uint256 quorum);
    event Executed(uint256 indexed id);

    // ---------------------------------------------------------------- deciding

    /// Opens a proposal, approved by the caller. The admin's takes effect at once, as does any when one is a quorum.
    function propose(uint8 kind, bytes calldata data) external returns (uint256 id) {
        bool byAdmin = msg.sender == _admin;
        require(byAdmin || PRODUCERS.isActive(msg.sender), "Members: only a producer of the schedule or the admin proposes");
        require(data.length <= MAX_DATA, "Members: the proposal is too long");
        id = _proposals.length;
        Proposal storage p = _proposals.push();
        p.proposer = msg.sender;
        p.createdAt = uint64(block.timestamp);
        p.kind = kind;
        p.data = data;
        emit Proposed(id, msg.sender, kind, data);
        if (byAdmin) _execute(id, p);
        else _approve(id, p);
    }

    /// Approves a proposal. It takes effect with the approval that completes a quorum of the schedule as it is then;
    /// approvals of accounts that left the schedule do not count. content is keccak256(abi.encode(kind, data)): numbers
    /// are given in the order of inclusion, so on another branch the number may be another proposal's.
    function approve(uint256 id, bytes32 content) external {
        require(id < _proposals.length, "Members: no such proposal");
        require(PRODUCERS.isActive(msg.sender), "Members: only a producer of the schedule approves");
        Proposal storage p = _proposals[id];
        require(
            content == keccak256(abi.encode(p.kind, p.data)), "Members: the proposal is another one than the caller approves"
        );
        require(!p.done, "Members: the proposal took effect before");
        require(block.timestamp <= uint256(p.createdAt) + _proposalSeconds, "Members: the proposal has expired");
        require(!_approved[id][msg.sender], "Members: the caller approved before");
        _approve(id, p);
    }

    function _approve(uint256 id, Proposal storage p) private {
        _approved[id][msg.sender] = true;
        p.approvals.push(msg.sender);
        uint256 count = _count(id);
        uint256 quorum = PRODUCERS.quorum();
        emit Approved(id, msg.sender, count, quorum);
        if (count >= quorum) _execute(id, p);
    }

    function _count(uint256 id) private view returns (uint256 count) {
        address[] memory accounts = PRODUCERS.active();
        for (uint256 i = 0; i < accounts.length; i++) {
            if (_approved[id][accounts[i]]) count++;
        }
    }

    function _execute(uint256 id, Proposal storage p) private {
        p.done = true;
        bytes memory data = p.data;
        uint8 kind = p.kind;
        if (kind == SET_NODE) {
            (bytes memory peerId, address account, uint8 roles) = abi.decode(data, (bytes, address, uint8));
            _setNode(peerId, account, roles);
        } else if (kind == REMOVE_NODE) {
            _removeNode(abi.decode(data, (bytes)));
        } else if (kind == RESTRICT_SENDERS) {
            _sendersRestricted = abi.decode(data, (bool));
            emit SendersRestricted(_sendersRestricted);
        } else if (kind == ALLOW_SENDER) {
            (address account, bool allowed) = abi.decode(data, (address, bool));
            _listed(_senders, _senderPlace, account, allowed);
            emit SenderAllowed(account, allowed);
        } else if (kind == RESTRICT_DEPLOYERS) {
            _deployersRestricted = abi.decode(data, (bool));
            emit DeployersRestricted(_deployersRestricted);
        } else if (kind == ALLOW_DEPLOYER) {
            (address account, bool allowed) = abi.decode(data, (address, bool));
            _listed(_deployers, _deployerPlace, account, allowed);
            emit DeployerAllowed(account, allowed);
        } else if (kind == PARAMETER) {
            (uint64 height, string memory name, bytes memory value) = abi.decode(data, (uint64, string, bytes));
            _change(height, kind, name, value);
        } else if (kind == UPGRADE) {
            (uint64 height, string memory name, bytes32 digest) = abi.decode(data, (uint64, string, bytes32));
            _change(height, kind, name, abi.encodePacked(digest));
        } else if (kind == SET_ADMIN) {
            _admin = abi.decode(data, (address));
            emit AdminSet(_admin);
        } else if (kind == SET_TENANT) {
            _setTenant(data);
        } else if (kind == PARDON) {
            (address account, string memory tenant) = abi.decode(data, (address, string));
            TOPICS.pardon(account, tenant);
        } else {
            revert("Members: no such kind of proposal");
        }
        emit Executed(id);
    }

    function _setNode(bytes memory peerId, address account, uint8 roles) private {
        require(peerId.length > 0 && peerId.length <= 128, "Members: a peer id has 1 to 128 bytes");
        require(roles > 0 && roles < 8, "Members: roles are producer 1, observer 2, broker 4, or a sum of them");
        require(roles & PRODUCER == 0 || account != address(0), "Members: a producer node needs an account");
        bytes32 id = keccak256(peerId);
        uint256 place = _nodePlace[id];
        address before;
        bool served;
        if (place == 0) {
            require(_nodes.length < MAX_NODES, "Members: the list of nodes is full");
            _nodes.push(Node(account, roles, peerId));
            _nodePlace[id] = _nodes.length;
        } else {
            Node storage n = _nodes[place - 1];
            if (n.roles & PRODUCER != 0) {
                before = n.account;
                _producerNodes[before]--;
            }
            served = n.roles & BROKER != 0 && (roles & BROKER == 0 || n.account != account);
            n.account = account;
            n.roles = roles;
        }
        if (roles & PRODUCER != 0) _producerNodes[account]++;
        emit NodeSet(peerId, account, roles);
        if (before != address(0) && _producerNodes[before] == 0) PRODUCERS.revoke(before);
        if (served) TOPICS.revokeBroker(peerId);
    }

    function _removeNode(bytes memory peerId) private {
        bytes32 id = keccak256(peerId);
        uint256 place = _nodePlace[id];
        require(place != 0, "Members: no such node");
        Node memory gone = _nodes[place - 1];
        uint256 last = _nodes.length;
        if (place != last) {
            _nodes[place - 1] = _nodes[last - 1];
            _nodePlace[keccak256(_nodes[place - 1].peerId)] = place;
        }
        _nodes.pop();
        delete _nodePlace[id];
        emit NodeRemoved(peerId, gone.account);
        if (gone.roles & PRODUCER != 0) {
            _producerNodes[gone.account]--;
            if (_producerNodes[gone.account] == 0) PRODUCERS.revoke(gone.account);
        }
        if (gone.roles & BROKER != 0) TOPICS.revokeBroker(peerId);
    }

    function _setTenant(bytes memory data) private {
        (
            string memory name,
            address owner,
            uint64 bytesPerSecond,
            uint32 connections,
            uint32 topics,
            uint32 partitions
        ) = abi.decode(data, (string, address, uint64, uint32, uint32, uint32));
        TOPICS.setTenant(name, owner, bytesPerSecond, connections, topics, partitions);
    }

    function _listed(
        address[] storage list_,
        mapping(address => uint256) storage place,
        address account,
        bool allowed
    ) private {
        uint256 pos = place[account];
        if (allowed && pos == 0) {
            require(list_.length < MAX_LISTED, "Members: the list of accounts is full");
            list_.push(account);
            place[account] = list_.length;
        } else if (!allowed && pos != 0) {
            address last = list_[list_.length - 1];
            list_[pos - 1] = last;
            place[last] = pos;
            list_.pop();
            delete place[account];
        }
    }

    function _change(uint64 height, uint8 kind, string memory name, bytes memory value) private {
        // The notice gives operators whose node lacks an upgrade the time to see it coming. Withdrawing one needs none:
        // it must be possible until the last block before the height, since nodes that lack the upgrade end there.
        bytes32 key = keccak256(abi.encode(kind, height, name));
        uint256 place = _changePlace[key];
        if (kind == UPGRADE && bytes32(value) == 0) {
            require(place != 0, "Members: no such upgrade was decided");
            require(height > block.number, "Members: the upgrade is in force");
        } else {
            require(
                height >= block.number + NOTICE, "Members: a change takes effect 64 blocks after its decision at the earliest"
            );
        }
        require(bytes(name).length > 0 && bytes(name).length <= MAX_NAME, "Members: a change has a name of 1 to 64 bytes");
        require(value.length <= MAX_VALUE, "Members: the value of a change has 32 bytes at most");
        _decisions++;
        if (place != 0) {
            _changes[place - 1].number = _decisions;
            _changes[place - 1].value = value;
        } else {
            // Nodes read the list before blocks: it is bounded. However many parameters were voted, an upgrade can be.
            require(
                _changes.length < (kind == UPGRADE ? MAX_CHANGES : MAX_CHANGES - UPGRADE_PLACES),
                "Members: the list of changes is full"
            );
            _changes.push(Change(height, kind, _decisions, name, value));
            _changePlace[key] = _changes.length;
        }
        emit ChangeDecided(height, kind, name, value);
    }

    // ---------------------------------------------------------------- reading

    /// All nodes: peer ids (text), accounts, roles.
    function list() external view returns (bytes[] memory peerIds, address[] memory accounts, uint8[] memory roles) {
        uint256 n = _nodes.length;
        peerIds = new bytes[](n);
        accounts = new address[](n);
        roles = new uint8[](n);
        for (uint256 i = 0; i < n; i++) {
            peerIds[i] = _nodes[i].peerId;
            accounts[i] = _nodes[i].account;
            roles[i] = _nodes[i].roles;
        }
    }

    /// One node; roles 0 if it is not a member.
    function node(bytes calldata peerId) external view returns (address account, uint8 roles) {
        uint256 place = _nodePlace[keccak256(peerId)];
        if (place == 0) return (address(0), 0);
        return (_nodes[place - 1].account, _nodes[place - 1].roles);
    }

    /// Whether the account has a node with the producer role.
    function mayProduce(address account) external view returns (bool) {
        return _producerNodes[account] > 0;
    }

    /// Whether the account may send transactions. The schedule's accounts and the admin always may, so that they can
    /// undo a restriction.
    function maySend(address account) external view returns (bool) {
        return !_sendersRestricted || _senderPlace[account] != 0 || account == _admin || PRODUCERS.isActive(account);
    }

    /// Whether the account may deploy contracts.
    function mayDeploy(address account) external view returns (bool) {
        return !_deployersRestricted || _deployerPlace[account] != 0 || account == _admin;
    }

    function restrictions() external view returns (bool senders_, bool deployers_) {
        return (_sendersRestricted, _deployersRestricted);
    }

    function senders() external view returns (address[] memory) {
        return _senders;
    }

    function deployers() external view returns (address[] memory) {
        return _deployers;
    }

    /// What was decided about parameters and upgrades. A decision replaces an earlier one of the same kind, height and
    /// name in its place; numbers tell which of two is the later.
    function changes() external view returns (Change[] memory) {
        return _changes;
    }

    function proposalCount() external view returns (uint256) {
        return _proposals.length;
    }

    /// One proposal and how many of the current schedule's accounts approve it.
    function proposal(uint256 id) external view returns (Proposal memory p, uint256 approvals, bool open) {
        require(id < _proposals.length, "Members: no such proposal");
        p = _proposals[id];
        approvals = _count(id);
        open = !p.done && block.timestamp <= uint256(p.createdAt) + _proposalSeconds;
    }

    function proposalSeconds() external view returns (uint64) {
        return _proposalSeconds;
    }

    function admin() external view returns (address) {
        return _admin;
    }
}

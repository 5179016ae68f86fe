pragma solidity 0.8.37;

import {LibString} from "solady/src/utils/LibString.sol";
import {INodes} from "./TopicsBase.sol";
import {Tenants} from "./Tenants.sol";

/// Who serves topics.
abstract contract Brokers is Tenants {
    struct Broker {
        uint32 id;
        address account;
        string host;
        uint16 port;
        bytes peerId;
        bool live;
    }

    /// Registers the caller as a broker that clients reach at host and port, or changes what it registered before. The
    /// node of this peer id must have the broker role in Members and the caller as its account. A broker keeps its
    /// number for ever.
    function registerBroker(string calldata host, uint16 port, bytes calldata peerId) external {
        require(
            bytes(host).length > 0 && bytes(host).length <= MAX_HOST && LibString.is7BitASCII(host, HOST_CHARS) && port != 0,
            "Topics: a broker has a host, a name or an address of 1 to 255 characters, and a port"
        );
        (address account, uint8 roles) = INodes(MEMBERS).node(peerId);
        require(
            roles & BROKER != 0 && account == msg.sender,
            "Topics: no node of this peer id has the broker role and the caller as its account in Members"
        );
        uint256 number = _brokerOf[msg.sender];
        if (number == 0) {
            require(_brokers.length < MAX_BROKERS, "Topics: the list of brokers is full");
            _brokers.push();
            number = _brokers.length;
            _brokerOf[msg.sender] = number;
            _brokers[number - 1].account = msg.sender;
            if (number == 1) {
                _setTenant(BROKERS_TENANT, "_bps", address(0), type(uint64).max, type(uint32).max, 16, 1024);
            }
        }
        Node storage b = _brokers[number - 1];
        bytes32 old = keccak256(b.peerId);
        if (_brokerOfPeer[old] == number) delete _brokerOfPeer[old];
        _brokerOfPeer[keccak256(peerId)] = number;
        b.host = host;
        b.port = port;
        b.peerId = peerId;
        if (b.place == 0) {
            _live.push(uint24(number));
            b.place = uint16(_live.length);
            b.until = uint64(block.timestamp + MAX_ATTENDANCE);
        }
        emit BrokerSet(msg.sender, uint32(number), host, port, peerId, true);
    }

    /// Says that the caller is there and that the ledger counts on it for so many seconds more; 0: no longer. A broker
    /// repeats this in time. Whoever leads a partition cannot take a replica away that attends, unless enough others do.
    function attend(uint32 time) external {
        uint256 number = _liveBroker();
        require(time <= MAX_ATTENDANCE, "Topics: a broker attends for an hour at most, and says it again");
        _brokers[number - 1].until = time == 0 ? 0 : uint64(block.timestamp + time);
    }

    /// Until when (Unix seconds) the ledger counts on a broker; 0: it does not.
    function attendsUntil(address broker) external view returns (uint64) {
        uint256 number = _brokerOf[broker];
        return _isLive(number) ? _brokers[number - 1].until : 0;
    }

    /// Takes the caller out of the live brokers: it gets no new partitions and claims none. It hands its leases over
    /// before, or others claim them.
    function retireBroker() external {
        uint256 number = _liveBroker();
        _retire(number);
    }

    /// Retires the broker of a node that lost its role or its account. Only Members calls this; it never reverts then.
    function revokeBroker(bytes calldata peerId) external {
        require(msg.sender == MEMBERS, "Topics: only the Members contract revokes");
        uint256 number = _brokerOfPeer[keccak256(peerId)];
        if (_isLive(number)) _retire(number);
    }

    function _retire(uint256 number) private {
        Node storage b = _brokers[number - 1];
        uint24 last = _live[_live.length - 1];
        _live[b.place - 1] = last;
        _brokers[last - 1].place = b.place;
        b.place = 0;
        _live.pop();
        emit BrokerSet(b.account, uint32(number), b.host, b.port, b.peerId, false);
    }

    /// All brokers that ever registered, by number.
    function brokers() external view returns (Broker[] memory list) {
        list = new Broker[](_brokers.length);
        for (uint256 i = 0; i < list.length; i++) {
            Node storage b = _brokers[i];
            list[i] = Broker(uint32(i + 1), b.account, b.host, b.port, b.peerId, b.place != 0);
        }
    }
}

pragma solidity 0.8.37;

import {Votes} from "./Votes.sol";

/// State, events and reading functions of Producers.
abstract contract Base {
    struct Settings {
        uint64 genesisTime; // Unix seconds; slot 0 begins here
        uint64 slotMillis;
        uint64 epochBlocks;
        uint16 seats; // of a schedule at most
        uint16 minProducers; // leaving never shrinks a schedule below this
        uint16 jailTurns; // empty turns in one epoch that send a producer to jail
        uint8 slashPercent; // of a guilty producer's own stake
        uint64 evidenceSeconds; // how old a proven slot may be
        uint64 withdrawSeconds; // longer than evidenceSeconds
        uint64 unjailSeconds;
        uint96 minStake; // own stake of a candidate
    }

    struct Key {
        bytes32 head;
        bytes16 tail;
    }

    struct Candidate {
        uint32 key; // place in _keys + 1; 0: never registered
        uint32 place; // place in _candidates + 1; 0: not listed
        uint8 seated; // bit 0: in the current schedule; bit 1: in the one before
        bool resigned;
        bool guilty; // proven; never produces again
        uint64 jailedUntil; // seconds; 0: not in jail
        uint64 reported; // epoch of the newest report + 1
        uint96 votes; // wei
        uint64 leftAt; // seconds; when it was last out of both schedules
        uint64 missed; // empty turns ever
    }

    struct Seat {
        address account;
        uint32 key; // place in _keys + 1
    }

    struct Account {
        uint96 stake; // deposited, votes included
        uint96 voted; // part of stake given as votes
        uint96 leaving; // requested back, not yet paid; still slashed
        uint64 readyAt; // seconds; when leaving may be paid
    }

    struct Path {
        bytes32 next; // parent of the lowest block
        uint64 top; // slot of the top block
        uint64 low; // slot of the lowest block
    }

    struct Ballot {
        address producer;
        uint96 amount;
    }

    address internal constant SYSTEM = 0xffffFFFfFFffffffffffffffFfFFFfffFFFfFFfE;
    address internal constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    address internal constant MEMBERS = 0x0000000000000000000000000000000000000B02;
    uint256 public constant MAX_CANDIDATES = 256;
    uint256 public constant MAX_BALLOTS = 32; // producers one account votes for

    Settings internal _settings;
    bytes32 internal _genesisHash;
    uint64 internal _nextEpoch;
    uint96 internal _totalStake;
    uint96 internal _slashed;
    Key[] internal _keys;
    mapping(bytes32 => address) internal _keyOwner;
    mapping(address => Candidate) internal _candidate;
    address[] internal _candidates;
    Seat[] internal _current;
    Seat[] internal _previous;
    mapping(address => Account) internal _account;
    mapping(address => Ballot[]) internal _ballots;
    mapping(address => mapping(bytes32 => Path)) internal _path; // by who proved it and the hash of the block on top

    event Registered(address indexed account, bytes key);
    event Resigned(address indexed account);
    event Rejoined(address indexed account);
    event Revoked(address indexed account);
    event Pruned(address indexed account);
    event Deposited(address indexed account, uint256 amount);
    event Voted(address indexed account, address indexed producer, uint256 amount);
    event Unvoted(address indexed account, address indexed producer, uint256 amount);
    event WithdrawalRequested(address indexed account, uint256 amount, uint256 readyAt);
    event Withdrawn(address indexed account, uint256 amount);
    event Reported(address indexed account, uint64 epoch);
    event Jailed(address indexed account, uint64 epoch, uint32 emptyTurns, uint64 until);
    event Unjailed(address indexed account);
    event Slashed(address indexed account, uint8 rule, uint64 slot, uint256 amount);
    event PathProven(address indexed account, bytes32 indexed top, bytes32 next, uint64 topSlot, uint64 lowSlot);
    event ScheduleChosen(uint64 indexed epoch, address[] accounts);

    // ---------------------------------------------------------------- shared

    // Whether an account may sit in a schedule.
    function _fit(address account, Candidate storage c) internal view returns (bool) {
        return c.place != 0 && !c.resigned && !c.guilty && c.jailedUntil == 0 && c.votes > 0
            && _account[account].stake >= _settings.minStake;
    }

    function _takeBack(address voter, Ballot[] storage bs, uint256 i, uint96 amount) internal {
        address producer = bs[i].producer;
        bs[i].amount -= amount;
        _candidate[producer].votes -= amount;
        _account[voter].voted -= amount;
        if (bs[i].amount == 0) {
            bs[i] = bs[bs.length - 1];
            bs.pop();
        }
        emit Unvoted(voter, producer, amount);
    }

    function _lookUpGenesis() internal view returns (bytes32) {
        if (block.number > 0 && block.number <= 256) return blockhash(0);
        (bool ok, bytes memory out) = HISTORY.staticcall(abi.encode(uint256(0)));
        return ok && out.length == 32 ? bytes32(out) : bytes32(0);
    }

    // ---------------------------------------------------------------- reading

    /// The schedule chosen last: accounts and their 48-byte keys, seat by seat.
    function schedule() public view returns (address[] memory accounts, bytes[] memory keys) {
        uint256 n = _current.length;
        accounts = new address[](n);
        keys = new bytes[](n);
        for (uint256 i = 0; i < n; i++) {
            accounts[i] = _current[i].account;
            keys[i] = _key(_current[i].key);
        }
    }

    /// The accounts of the schedule chosen last.
    function active() external view returns (address[] memory accounts) {
        uint256 n = _current.length;
        accounts = new address[](n);
        for (uint256 i = 0; i < n; i++) {
            accounts[i] = _current[i].account;
        }
    }

    /// How many of the schedule's accounts decide: n - floor((n - 1) / 3).
    function quorum() external view returns (uint256) {
        uint256 n = _current.length;
        return n - (n - 1) / 3;
    }

    function isActive(address account) external view returns (bool) {
        return _candidate[account].seated & 1 != 0;
    }

    function candidates() external view returns (address[] memory) {
        return _candidates;
    }

    function candidate(address account) external view returns (Candidate memory info, bytes memory key) {
        info = _candidate[account];
        if (info.key != 0) key = _key(info.key);
    }

    function stakeOf(address owner) external view returns (Account memory) {
        return _account[owner];
    }

    function ballots(address owner) external view returns (Ballot[] memory) {
        return _ballots[owner];
    }

    function keyOwner(bytes calldata key48) external view returns (address) {
        return _keyOwner[keccak256(key48)];
    }

    function settings() external view returns (Settings memory) {
        return _settings;
    }

    function totals() external view returns (uint256 staked, uint256 slashed) {
        return (_totalStake, _slashed);
    }

    /// The epoch of the block that is being executed.
    function epoch() public view returns (uint64) {
        return block.number == 0 ? 0 : uint64((block.number - 1) / _settings.epochBlocks);
    }

    /// The hash of block 0, part of every vote's bytes. Zero while it is neither stored nor within reach.
    function genesisHash() public view returns (bytes32) {
        return _genesisHash != 0 ? _genesisHash : _lookUpGenesis();
    }

    /// What a vote of this chain signs.
    function voteDigest(Votes.Vote calldata v) external view returns (bytes32) {
        return Votes.voteDigest(genesisHash(), Votes.NO_RECOVERY, v);
    }

    /// What a proof of possession on this chain signs.
    function possessionDigest(address owner, bytes calldata key48) external view returns (bytes32) {
        return Votes.possessionDigest(uint64(block.chainid), owner, key48);
    }

    /// Whether a signature is the key's on a digest.
    function verify(bytes calldata key128, bytes32 digest, bytes calldata signature) external view returns (bool) {
        Votes.compress(key128);
        return Votes.check(key128, digest, signature);
    }

    function _key(uint32 place) private view returns (bytes memory) {
        Key storage k = _keys[place - 1];
        return abi.encodePacked(k.head, k.tail);
    }
}

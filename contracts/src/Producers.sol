pragma solidity 0.8.37;

import {Election} from "./Election.sol";
import {Evidence} from "./Evidence.sol";
import {Votes} from "./Votes.sol";

interface IMembers {
    function mayProduce(address account) external view returns (bool);
}

/// Who produces blocks: keys, stakes, votes, the schedule of each epoch, jail, and slashing on evidence. It is part of
/// the genesis state. The node calls endEpoch at the end of an epoch's last block, unless a change of schedule is still
/// under way; what it returns is the schedule that follows.
///
/// Stake counts in wei and belongs to whoever deposited it. Its owner gives parts of it as votes to candidates; only a
/// candidate's own stake is ever slashed. Slashed stake stays here for good.
contract Producers is Election, Evidence {
    // ---------------------------------------------------------------- keys

    /// Registers the caller's BLS key with a proof of possession: the signature of the key on
    /// keccak256("bornode-pop-1", chain id, account, key48). A key is registered once for ever. A candidate with
    /// a seat should not register another key: while both schedules count it would have to sign with both, and a node
    /// holds one. It resigns, and registers the new key when its seat is gone. A guilty key stays its account's.
    function register(bytes calldata key48, bytes calldata key128, bytes calldata proof) external {
        require(key48.length == 48, "Producers: a compressed key has 48 bytes");
        (bytes32 head, bytes16 tail) = Votes.compress(key128);
        require(
            bytes32(key48[:32]) == head && bytes16(key48[32:]) == tail,
            "Producers: the compressed and the uncompressed key are two different points"
        );
        bytes32 id = keccak256(key48);
        require(_keyOwner[id] == address(0), "Producers: this key was registered before; make a new one");
        Candidate storage c = _candidate[msg.sender];
        _requireFit(c);
        require(
            Votes.check(key128, Votes.possessionDigest(uint64(block.chainid), msg.sender, key48), proof),
            "Producers: the proof of possession is not this key's signature for this account and chain"
        );
        _keyOwner[id] = msg.sender;
        _keys.push(Key(head, tail));
        c.key = uint32(_keys.length);
        c.resigned = false;
        _list(c, msg.sender);
        emit Registered(msg.sender, key48);
    }

    /// Gives up the candidacy; the seat goes at the next change of schedule.
    function resign() external {
        Candidate storage c = _candidate[msg.sender];
        require(c.key != 0 && !c.resigned, "Producers: the caller is no candidate");
        c.resigned = true;
        emit Resigned(msg.sender);
    }

    /// Takes a candidacy up again with the key registered before.
    function rejoin() external {
        Candidate storage c = _candidate[msg.sender];
        require(c.key != 0 && c.resigned, "Producers: the caller has not resigned");
        _requireFit(c);
        c.resigned = false;
        _list(c, msg.sender);
        emit Rejoined(msg.sender);
    }

    /// Takes the candidacy of an account that lost its producer node. Only Members calls this.
    function revoke(address account) external {
        require(msg.sender == MEMBERS, "Producers: only the Members contract revokes");
        Candidate storage c = _candidate[account];
        if (c.key == 0 || c.resigned) return;
        c.resigned = true;
        emit Revoked(account);
    }

    /// Frees the place of a candidate who resigned or was found guilty and sits in no schedule.
    function prune(address account) external {
        Candidate storage c = _candidate[account];
        require(
            c.place != 0 && (c.resigned || c.guilty) && c.seated == 0,
            "Producers: only who resigned or is guilty, and sits in no schedule, can be pruned"
        );
        uint256 last = _candidates.length - 1;
        address moved = _candidates[last];
        _candidates[c.place - 1] = moved;
        _candidate[moved].place = c.place;
        c.place = 0;
        _candidates.pop();
        emit Pruned(account);
    }

    function _requireFit(Candidate storage c) private view {
        require(!c.guilty, "Producers: the caller was proven guilty and never produces again");
        require(IMembers(MEMBERS).mayProduce(msg.sender), "Producers: no node of the caller has the producer role");
        require(_account[msg.sender].stake >= _settings.minStake, "Producers: deposit at least the minimum stake first");
    }

    function _list(Candidate storage c, address account) private {
        if (c.place != 0) return;
        require(_candidates.length < MAX_CANDIDATES, "Producers: all places are taken; prune one first");
        _candidates.push(account);
        c.place = uint32(_candidates.length);
    }

    // ---------------------------------------------------------------- stake and votes

    /// Adds the value sent to the caller's stake.
    function deposit() external payable {
        require(msg.value > 0, "Producers: no value was sent");
        require(uint256(_totalStake) + msg.value <= type(uint96).max, "Producers: more stake than can be counted");
        _totalStake += uint96(msg.value);
        _account[msg.sender].stake += uint96(msg.value);
        emit Deposited(msg.sender, msg.value);
    }

    /// Gives amount of the caller's free stake as votes to a candidate.
    function vote(address producer, uint96 amount) external {
        Account storage a = _account[msg.sender];
        require(amount > 0, "Producers: nothing to vote with");
        require(_candidate[producer].place != 0, "Producers: no such candidate");
        require(a.stake - a.voted >= amount, "Producers: the caller's free stake is smaller; deposit or unvote first");
        a.voted += amount;
        _candidate[producer].votes += amount;
        Ballot[] storage bs = _ballots[msg.sender];
        for (uint256 i = 0; i < bs.length; i++) {
            if (bs[i].producer == producer) {
                bs[i].amount += amount;
                emit Voted(msg.sender, producer, amount);
                return;
            }
        }
        require(bs.length < MAX_BALLOTS, "Producers: the caller votes for too many; unvote one first");
        bs.push(Ballot(producer, amount));
        emit Voted(msg.sender, producer, amount);
    }

    /// Takes votes back.
    function unvote(address producer, uint96 amount) external {
        Ballot[] storage bs = _ballots[msg.sender];
        for (uint256 i = 0; i < bs.length; i++) {
            if (bs[i].producer == producer) {
                require(amount > 0 && bs[i].amount >= amount, "Producers: the caller gave fewer votes than that");
                _takeBack(msg.sender, bs, i, amount);
                return;
            }
        }
        revert("Producers: the caller does not vote for this producer");
    }

    /// Asks for free stake back. It can still be slashed until it is paid. A second request before the first is paid
    /// starts the delay anew for both.
    function requestWithdrawal(uint96 amount) external {
        Account storage a = _account[msg.sender];
        Candidate storage c = _candidate[msg.sender];
        require(amount > 0 && a.stake - a.voted >= amount, "Producers: the caller's free stake is smaller; unvote first");
        require(
            c.key == 0 || c.resigned || c.guilty || a.stake - amount >= _settings.minStake,
            "Producers: a candidate keeps the minimum stake; resign first"
        );
        a.stake -= amount;
        a.leaving += amount;
        a.readyAt = uint64(block.timestamp) + _settings.withdrawSeconds;
        emit WithdrawalRequested(msg.sender, amount, a.readyAt);
    }

    /// Pays what was requested, once its delay is over. Who resigned waits until he is out of every schedule that
    /// counts, and the delay from then on.
    function withdraw() external {
        Account storage a = _account[msg.sender];
        Candidate storage c = _candidate[msg.sender];
        uint96 amount = a.leaving;
        require(amount > 0, "Producers: nothing was requested");
        require(block.timestamp >= a.readyAt, "Producers: the delay is not over");
        if (c.resigned || c.guilty) {
            require(c.seated == 0, "Producers: the caller is still in a schedule");
            require(block.timestamp >= uint256(c.leftAt) + _settings.withdrawSeconds, "Producers: the delay is not over");
        }
        a.leaving = 0;
        a.readyAt = 0;
        _totalStake -= amount;
        emit Withdrawn(msg.sender, amount);
        (bool ok,) = msg.sender.call{value: amount}("");
        require(ok, "Producers: the caller takes no payment");
    }

    // ---------------------------------------------------------------- standby

    /// A candidate without a seat shows that it is alive. Only who did so in an epoch gets a seat at its end.
    function reportStandby() external {
        Candidate storage c = _candidate[msg.sender];
        require(_fit(msg.sender, c), "Producers: only a candidate with stake and votes, not in jail, can report");
        require(c.seated & 1 == 0, "Producers: the caller has a seat");
        require(IMembers(MEMBERS).mayProduce(msg.sender), "Producers: no node of the caller has the producer role");
        uint64 e = epoch();
        c.reported = e + 1;
        emit Reported(msg.sender, e);
    }

    /// Leaves jail after the delay. A seat has to be won again.
    function unjail() external {
        Candidate storage c = _candidate[msg.sender];
        require(c.jailedUntil != 0, "Producers: the caller is not in jail");
        require(block.timestamp >= c.jailedUntil, "Producers: the delay is not over");
        c.jailedUntil = 0;
        emit Unjailed(msg.sender);
    }
}

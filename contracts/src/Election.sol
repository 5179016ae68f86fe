pragma solidity 0.8.37;

import {LibSort} from "solady/src/utils/LibSort.sol";
import {Base} from "./Base.sol";

/// The end of an epoch: jail and election.
abstract contract Election is Base {
    struct Count {
        uint64 epoch;
        uint256 n; // seats of the current schedule
        uint256 changes; // left of the f changes by jailing
        uint256 fit; // who may sit: incumbents, and others that reported
        uint32[] turns; // empty turns per seat
        bool[] stays; // per seat
    }

    /// Ends an epoch: counts the empty turns, jails, and elects. Only the system calls it. missed is packed (uint16 seat
    /// of the current schedule, uint32 empty turns). It never reverts for the system.
    function endEpoch(uint64 ended, bytes calldata missed)
        external
        returns (address[] memory accounts, bytes[] memory keys)
    {
        require(msg.sender == SYSTEM, "Producers: only the system ends an epoch");
        require(ended >= _nextEpoch, "Producers: this epoch has ended");
        _nextEpoch = ended + 1;
        if (_genesisHash == 0) _genesisHash = _lookUpGenesis();

        Count memory e;
        e.epoch = ended;
        e.n = _current.length;
        e.changes = (e.n - 1) / 3;
        e.stays = new bool[](e.n);
        e.turns = _readMissed(missed, e.n);
        _countFit(e);
        _removeGuilty(e);
        _jail(e);
        _keepEnough(e);
        _seat(e, _rank(e));
        (accounts, keys) = schedule();
        emit ScheduleChosen(ended, accounts);
    }

    function _readMissed(bytes calldata missed, uint256 n) private returns (uint32[] memory turns) {
        turns = new uint32[](n);
        for (uint256 i = 0; i + 6 <= missed.length; i += 6) {
            uint256 seat = uint16(bytes2(missed[i:i + 2]));
            uint32 count = uint32(bytes4(missed[i + 2:i + 6]));
            if (seat >= n) continue;
            turns[seat] = count;
            _candidate[_current[seat].account].missed += count;
        }
    }

    // stays[i]: the incumbent is fit (before anything is known of the others).
    function _countFit(Count memory e) private view {
        for (uint256 i = 0; i < e.n; i++) {
            address a = _current[i].account;
            if (_fit(a, _candidate[a])) {
                e.stays[i] = true;
                e.fit++;
            }
        }
        uint256 count = _candidates.length;
        for (uint256 i = 0; i < count; i++) {
            address a = _candidates[i];
            Candidate storage c = _candidate[a];
            if (c.seated & 1 == 0 && c.reported == e.epoch + 1 && _fit(a, c)) e.fit++;
        }
    }

    // The guilty leave, at most f of them per epoch.
    function _removeGuilty(Count memory e) private view {
        for (uint256 i = 0; i < e.n; i++) {
            if (!_candidate[_current[i].account].guilty) continue;
            if (e.changes > 0 && e.fit >= _settings.minProducers) {
                e.changes--;
            } else {
                e.stays[i] = true;
            }
        }
    }

    // Jails those who missed most, while f allows and somebody fit takes the seat.
    function _jail(Count memory e) private {
        uint256 full = e.n < _settings.seats ? e.n : _settings.seats;
        uint32 least = _settings.jailTurns;
        while (e.changes > 0 && e.fit > full && e.fit > _settings.minProducers) {
            uint256 worst = e.n;
            uint32 most = least - 1;
            for (uint256 i = 0; i < e.n; i++) {
                if (e.turns[i] > most && e.stays[i] && !_candidate[_current[i].account].guilty) {
                    most = e.turns[i];
                    worst = i;
                }
            }
            if (worst == e.n) return;
            address a = _current[worst].account;
            e.stays[worst] = false;
            e.turns[worst] = 0;
            e.fit--;
            e.changes--;
            uint64 until = uint64(block.timestamp) + _settings.unjailSeconds;
            _candidate[a].jailedUntil = until;
            emit Jailed(a, e.epoch, most, until);
        }
    }

    // Who resigned or lost stake or votes leaves too, unless the schedule would become too small.
    function _keepEnough(Count memory e) private view {
        uint256 size = e.fit;
        for (uint256 i = 0; i < e.n; i++) {
            if (e.stays[i] && !_fit(_current[i].account, _candidate[_current[i].account])) size++;
        }
        for (uint256 i = 0; i < e.n && size < _settings.minProducers; i++) {
            Candidate storage c = _candidate[_current[i].account];
            if (e.stays[i] || c.guilty || c.jailedUntil != 0) continue;
            e.stays[i] = true;
            size++;
        }
    }

    // Ranks the fit by votes, the earlier listed first among equals, and returns the places of those elected, best
    // first. Who stays without being fit takes a seat before all of them.
    function _rank(Count memory e) private view returns (address[] memory elected) {
        uint256 seats = _settings.seats;
        for (uint256 i = 0; i < e.n; i++) {
            if (e.stays[i] && !_fit(_current[i].account, _candidate[_current[i].account]) && seats > 0) seats--;
        }
        uint256 count = _candidates.length;
        uint256[] memory order = new uint256[](count);
        uint256 m;
        for (uint256 i = 0; i < count; i++) {
            address a = _candidates[i];
            Candidate storage c = _candidate[a];
            if (!_fit(a, c) || (c.seated & 1 == 0 && c.reported != e.epoch + 1)) continue;
            order[m++] = uint256(c.votes) << 16 | (0xffff - i);
        }
        assembly ("memory-safe") {
            mstore(order, m)
        }
        LibSort.sort(order);
        uint256 size = m < seats ? m : seats;
        elected = new address[](size);
        for (uint256 i = 0; i < size; i++) {
            elected[i] = _candidates[0xffff - (order[m - 1 - i] & 0xffff)];
        }
    }

    // Writes the next schedule: who stays keeps his seat, newcomers take the free seats in the order of votes.
    function _seat(Count memory e, address[] memory elected) private {
        Seat[] memory next = new Seat[](e.n + elected.length);
        bool[] memory placed = new bool[](elected.length);
        for (uint256 i = 0; i < e.n; i++) {
            address a = _current[i].account;
            bool keep = e.stays[i] && !_fit(a, _candidate[a]);
            for (uint256 j = 0; j < elected.length; j++) {
                if (elected[j] == a) {
                    keep = true;
                    placed[j] = true;
                }
            }
            if (keep) next[i] = Seat(a, _candidate[a].key);
        }
        uint256 free;
        for (uint256 j = 0; j < elected.length; j++) {
            if (placed[j]) continue;
            while (next[free].account != address(0)) free++;
            next[free] = Seat(elected[j], _candidate[elected[j]].key);
        }
        _replace(next);
    }

    function _replace(Seat[] memory next) private {
        for (uint256 i = 0; i < _previous.length; i++) {
            Candidate storage c = _candidate[_previous[i].account];
            c.seated &= 1;
        }
        for (uint256 i = 0; i < _current.length; i++) {
            Candidate storage c = _candidate[_current[i].account];
            c.seated = 2;
        }
        Seat[] memory old = _previous;
        _previous = _current;
        delete _current;
        for (uint256 i = 0; i < next.length; i++) {
            if (next[i].account == address(0)) continue;
            _current.push(next[i]);
            _candidate[next[i].account].seated |= 1;
        }
        for (uint256 i = 0; i < old.length; i++) {
            Candidate storage c = _candidate[old[i].account];
            if (c.seated == 0) c.leftAt = uint64(block.timestamp);
        }
    }
}

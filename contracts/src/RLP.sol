pragma solidity 0.8.37;

/// Reads RLP from calldata. Every function reverts on bytes that end too early; none copies more than a word.
library RLP {
    /// The payload of the one list that fills b: where it starts and where it ends.
    function list(bytes calldata b) internal pure returns (uint256 pos, uint256 end) {
        uint256 after_;
        (pos, end, after_) = _item(b, 0, true);
        require(after_ == b.length, "RLP: bytes follow the list");
    }

    /// Steps over one item of any kind.
    function skip(bytes calldata b, uint256 pos, uint256 end) internal pure returns (uint256 after_) {
        require(pos < end, "RLP: an item is missing");
        bool isList = uint8(b[pos]) >= 0xc0;
        (,, after_) = _item(b, pos, isList);
        require(after_ <= end, "RLP: an item is too long");
    }

    /// Reads one string of at most 32 bytes as a number, and says how long it was.
    function word(bytes calldata b, uint256 pos, uint256 end)
        internal
        pure
        returns (uint256 value, uint256 length, uint256 after_)
    {
        require(pos < end, "RLP: an item is missing");
        uint256 from;
        uint256 to;
        (from, to, after_) = _item(b, pos, false);
        length = to - from;
        require(after_ <= end && length <= 32, "RLP: an item is too long");
        for (uint256 i = from; i < to; i++) {
            value = (value << 8) | uint8(b[i]);
        }
    }

    function _item(bytes calldata b, uint256 pos, bool wantList)
        private
        pure
        returns (uint256 from, uint256 to, uint256 after_)
    {
        uint256 first = uint8(b[pos]);
        require(wantList == (first >= 0xc0), "RLP: a list where a string belongs, or the reverse");
        if (first < 0x80) return (pos, pos + 1, pos + 1);
        uint256 base = wantList ? 0xc0 : 0x80;
        uint256 length = first - base;
        from = pos + 1;
        if (length > 55) {
            uint256 n = length - 55;
            require(n <= 4, "RLP: an item is too long");
            length = 0;
            for (uint256 i = 0; i < n; i++) {
                length = (length << 8) | uint8(b[from + i]);
            }
            from += n;
        }
        to = from + length;
        after_ = to;
        require(to <= b.length, "RLP: bytes end inside an item");
    }
}

package bls

import "github.com/ethereum/go-ethereum/common/lru"

// Cache keeps public keys decompressed and validated, so that checking an aggregate of known keys costs one pairing and
// one addition per key. It holds a bounded number of keys and forgets the least recently used. Safe for concurrent use.
type Cache struct {
	keys *lru.Cache[[KeyLength]byte, *keyPoint]
}

// NewCache makes a cache for at most this many keys; below 1 means DefaultCacheKeys.
func NewCache(keys int) *Cache {
	if keys < 1 {
		keys = DefaultCacheKeys
	}
	return &Cache{keys: lru.NewCache[[KeyLength]byte, *keyPoint](keys)}
}

func (c *Cache) parse(k *[KeyLength]byte) (*keyPoint, error) {
	if p, ok := c.keys.Get(*k); ok {
		return p, nil
	}
	p, err := parseKey(k)
	if err != nil {
		return nil, err
	}
	c.keys.Add(*k, p)
	return p, nil
}

// Len is the number of keys held.
func (c *Cache) Len() int { return c.keys.Len() }

// Verify is the package's Verify with the key from the cache.
func (c *Cache) Verify(pk [KeyLength]byte, msg []byte, sig [SignatureLength]byte) bool {
	return verifyAggregate(c.parse, [][KeyLength]byte{pk}, msg, &sig)
}

// VerifyAggregate is the package's VerifyAggregate with the keys from the cache.
func (c *Cache) VerifyAggregate(pks [][KeyLength]byte, msg []byte, agg [SignatureLength]byte) bool {
	return verifyAggregate(c.parse, pks, msg, &agg)
}

// VerifyEach reports whether every one of the signatures is that of the key of the same index on the message. Unlike
// VerifyAggregate it speaks for each part: signatures that are wrong in ways that cancel each other out are refused.
// It costs one pairing and two short multiplications per signature; an empty list is never verified.
func (c *Cache) VerifyEach(pks [][KeyLength]byte, msg []byte, sigs []*Signature) bool {
	if len(pks) != len(sigs) || len(pks) > MaxAggregate {
		return false
	}
	points := make([]*keyPoint, len(pks))
	for i := range pks {
		p, err := c.parse(&pks[i])
		if err != nil {
			return false
		}
		points[i] = p
	}
	return verifyEach(points, msg, sigs)
}

package contracts

import "fmt"

const pageSize = 256 // entries that are asked for at once

// Caller makes a call to Topics in the state of one block, always the same one, and returns what the contract does.
type Caller func(data []byte) ([]byte, error)

// ReadTopics reads all topics that are not deleted, page by page. Errors of the caller come unchanged, others wrap
// ErrReturn.
func ReadTopics(call Caller) ([]TopicInfo, error) {
	return pages(func(from uint64) ([]TopicInfo, uint64, error) {
		ret, err := call(TopicPageCall(from, MaxTopicPage))
		if err != nil {
			return nil, 0, err
		}
		return DecodeTopicPage(ret)
	})
}

// ReadTenants reads all tenants as ReadTopics does.
func ReadTenants(call Caller) ([]Tenant, error) {
	return pages(func(from uint64) ([]Tenant, uint64, error) {
		ret, err := call(TenantPageCall(from, pageSize))
		if err != nil {
			return nil, 0, err
		}
		return DecodeTenantPage(ret)
	})
}

// ReadAcls reads all rules of a tenant as ReadTopics does.
func ReadAcls(call Caller, tenant string) ([]Acl, error) {
	return pages(func(from uint64) ([]Acl, uint64, error) {
		ret, err := call(AclPageCall(tenant, from, pageSize))
		if err != nil {
			return nil, 0, err
		}
		return DecodeAclPage(ret)
	})
}

func pages[T any](read func(from uint64) ([]T, uint64, error)) ([]T, error) {
	var all []T
	for {
		page, total, err := read(uint64(len(all)))
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		switch n := uint64(len(all)); {
		case n == total:
			return all, nil
		case n > total || len(page) == 0:
			return nil, fmt.Errorf("%w: pages with %d of %d entries", ErrReturn, n, total)
		}
	}
}

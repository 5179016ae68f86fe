package pubsub

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
)

// filter is what a client looks for among rules of access; Kafka's "any" and null match everything.
type filter struct {
	resource              kmsg.ACLResourceType
	pattern               kmsg.ACLResourcePatternType
	operation             kmsg.ACLOperation
	permission            kmsg.ACLPermissionType
	name, principal, host *string
}

func (f *filter) matches(e *contracts.Acl) bool {
	text := func(want *string, have string) bool { return want == nil || *want == have }
	switch {
	case f.resource != kmsg.ACLResourceTypeAny && uint8(f.resource) != e.Resource, //nolint:gosec // small
		f.operation != kmsg.ACLOperationAny && uint8(f.operation) != e.Operation,         //nolint:gosec // small
		f.permission != kmsg.ACLPermissionTypeAny && uint8(f.permission) != e.Permission, //nolint:gosec // small
		!text(f.principal, e.Principal), !text(f.host, e.Host):
		return false
	}
	switch f.pattern {
	case kmsg.ACLResourcePatternTypeAny:
		return text(f.name, e.Name)
	case kmsg.ACLResourcePatternTypeMatch: // every rule that would speak about this name
		return f.name == nil || *f.name == e.Name || e.Pattern == uint8(kmsg.ACLResourcePatternTypePrefixed) && len(*f.name) >= len(e.Name) && (*f.name)[:len(e.Name)] == e.Name
	}
	return uint8(f.pattern) == e.Pattern && text(f.name, e.Name) //nolint:gosec // small
}

// visible calls f for every rule of the tenants that the session's account owns.
func (x *call) visible(f func(tenant string, e *contracts.Acl)) {
	for _, t := range x.v.Tenants() {
		if !x.ownsTenant(t.Name) {
			continue
		}
		list := x.v.Acls(t.Name)
		for i := range list {
			f(t.Name, &list[i])
		}
	}
}

func (b *Broker) describeACLs(x *call, r *kmsg.DescribeACLsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DescribeACLsResponse)
	f := filter{r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType, r.ResourceName, r.Principal, r.Host}
	if r.Version == 0 {
		f.pattern = kmsg.ACLResourcePatternTypeLiteral
	}
	owns, place := false, make(map[string]int)
	for _, t := range x.v.Tenants() {
		owns = owns || x.ownsTenant(t.Name)
	}
	if !owns {
		resp.ErrorCode, resp.ErrorMessage = kerr.ClusterAuthorizationFailed.Code, text("rules of access are shown to the owner of a tenant")
		return kafka.Now(resp)
	}
	x.visible(func(_ string, e *contracts.Acl) {
		if !f.matches(e) {
			return
		}
		key := string([]byte{e.Resource, e.Pattern}) + e.Name
		i, ok := place[key]
		if !ok {
			i = len(resp.Resources)
			place[key] = i
			n := kmsg.NewDescribeACLsResponseResource()
			n.ResourceType, n.ResourcePatternType, n.ResourceName = kmsg.ACLResourceType(e.Resource), kmsg.ACLResourcePatternType(e.Pattern), e.Name //nolint:gosec // small
			resp.Resources = append(resp.Resources, n)
		}
		resp.Resources[i].ACLs = append(resp.Resources[i].ACLs, kmsg.DescribeACLsResponseResourceACL{Principal: e.Principal, Host: e.Host,
			Operation: kmsg.ACLOperation(e.Operation), PermissionType: kmsg.ACLPermissionType(e.Permission)}) //nolint:gosec // small
	})
	return kafka.Now(resp)
}

func (b *Broker) createACLs(x *call, r *kmsg.CreateACLsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.CreateACLsResponse)
	return func(ctx context.Context) kmsg.Response {
		resp.Results = make([]kmsg.CreateACLsResponseResult, len(r.Creations))
		each(r.Creations, func(i int, in *kmsg.CreateACLsRequestCreation) {
			o := x.createACL(ctx, in, r.Version)
			resp.Results[i] = kmsg.NewCreateACLsResponseResult()
			resp.Results[i].ErrorCode, resp.Results[i].ErrorMessage = o.code, o.message
		})
		return resp
	}
}

func (x *call) createACL(ctx context.Context, in *kmsg.CreateACLsRequestCreation, version int16) outcome {
	e := contracts.Acl{Resource: uint8(in.ResourceType), Pattern: uint8(in.ResourcePatternType), Name: in.ResourceName, Principal: in.Principal, //nolint:gosec // the contract judges
		Host: in.Host, Operation: uint8(in.Operation), Permission: uint8(in.PermissionType)} //nolint:gosec // the contract judges
	if version == 0 {
		e.Pattern = uint8(kmsg.ACLResourcePatternTypeLiteral)
	}
	tenant := tenantOf(e.Name)
	if tenant == "" && len(e.Name) > 0 && e.Name[len(e.Name)-1] == '.' {
		tenant = e.Name[:len(e.Name)-1] // a prefix of all that the tenant has
	}
	if tenant == "" || strings.Contains(tenant, ".") {
		return failed(kerr.InvalidRequest, "a rule's name begins with its tenant and a dot, like acme.orders")
	}
	data, err := contracts.GrantCall(tenant, []contracts.Acl{e})
	if err != nil {
		return failed(kerr.InvalidRequest, err.Error())
	}
	return ofRules(x.relay(ctx, "grant", data, func(v *ledger.View) bool { return slices.Contains(v.Acls(tenant), e) }))
}

func (b *Broker) deleteACLs(x *call, r *kmsg.DeleteACLsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DeleteACLsResponse)
	return func(ctx context.Context) kmsg.Response {
		resp.Results = make([]kmsg.DeleteACLsResponseResult, len(r.Filters))
		each(r.Filters, func(i int, in *kmsg.DeleteACLsRequestFilter) {
			f := filter{in.ResourceType, in.ResourcePatternType, in.Operation, in.PermissionType, in.ResourceName, in.Principal, in.Host}
			if r.Version == 0 {
				f.pattern = kmsg.ACLResourcePatternTypeLiteral
			}
			resp.Results[i] = x.deleteACL(ctx, &f)
		})
		return resp
	}
}

// deleteACL takes away every visible rule that a filter matches, one call for a tenant.
func (x *call) deleteACL(ctx context.Context, f *filter) kmsg.DeleteACLsResponseResult {
	out := kmsg.NewDeleteACLsResponseResult()
	if v := x.b.deps.Ledger.View(); v != nil {
		x.v = v
	}
	found := make(map[string][]contracts.Acl)
	x.visible(func(tenant string, e *contracts.Acl) {
		if f.matches(e) {
			found[tenant] = append(found[tenant], *e)
		}
	})
	for tenant, list := range found {
		for len(list) > 0 {
			part := list[:min(len(list), maxRules)]
			list = list[len(part):]
			o := x.revoke(ctx, tenant, part)
			for _, e := range part {
				m := kmsg.NewDeleteACLsResponseResultMatchingACL()
				m.ErrorCode, m.ErrorMessage = o.code, o.message
				m.ResourceType, m.ResourcePatternType, m.ResourceName = kmsg.ACLResourceType(e.Resource), kmsg.ACLResourcePatternType(e.Pattern), e.Name //nolint:gosec // small
				m.Principal, m.Host = e.Principal, e.Host
				m.Operation, m.PermissionType = kmsg.ACLOperation(e.Operation), kmsg.ACLPermissionType(e.Permission) //nolint:gosec // small
				out.MatchingACLs = append(out.MatchingACLs, m)
			}
		}
	}
	return out
}

// revoke takes rules of one tenant away.
func (x *call) revoke(ctx context.Context, tenant string, part []contracts.Acl) outcome {
	data, err := contracts.RevokeCall(tenant, part)
	if err != nil {
		return failed(kerr.InvalidRequest, err.Error())
	}
	return ofRules(x.relay(ctx, "revoke", data, func(v *ledger.View) bool { return !slices.Contains(v.Acls(tenant), part[0]) }))
}

// ofRules tells who may not set rules what Kafka tells him: rules are the cluster's there, also those of topics.
func ofRules(o outcome) outcome {
	if o.code == kerr.TopicAuthorizationFailed.Code {
		o.code = kerr.ClusterAuthorizationFailed.Code
	}
	return o
}

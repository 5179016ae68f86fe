package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// LinkLayer is what a port's cable carries. Ports of different layers cannot reach each other.
type LinkLayer uint8

// Link layers.
const (
	LinkEthernet   LinkLayer = iota + 1 // RoCE v2
	LinkInfiniBand                      // addressed by LID, and by GID between subnets
)

// String names the link layer.
func (l LinkLayer) String() string {
	switch l {
	case LinkEthernet:
		return "Ethernet"
	case LinkInfiniBand:
		return "InfiniBand"
	}
	return fmt.Sprintf("link(%d)", uint8(l))
}

// Providers an Endpoint may name.
const (
	ProviderNIC  = "rdma"
	ProviderSoft = "rdma-rxe"
)

// Endpoint is a port of a device with the address that a peer reaches it by.
type Endpoint struct {
	Device   string // "mlx5_0"
	Port     int    // from 1
	Provider string // ProviderNIC or ProviderSoft
	GUID     string // of the device: "0002:c903:0012:3456"
	Link     LinkLayer
	GID      [16]byte
	GIDIndex int
	LID      uint16     // InfiniBand
	MTU      int        // bytes of the active path MTU
	NetDev   string     // network interface of the GID; may be empty on InfiniBand
	Addr     netip.Addr // of the GID (RoCE) or of the interface (InfiniBand); invalid if it has none
}

// String is as in logs.
func (e Endpoint) String() string {
	where := e.Addr.String()
	if !e.Addr.IsValid() {
		where = fmt.Sprintf("LID %d", e.LID)
	}
	return fmt.Sprintf("%s port %d, %s %s (GID %d), MTU %d", e.Device, e.Port, e.Link, where, e.GIDIndex, e.MTU)
}

// machine is where endpoints are looked for; tests have their own.
type machine struct {
	sys   fs.FS                                     // /sys/class
	addrs func(netdev string) ([]netip.Addr, error) // addresses of a network interface
}

func thisMachine() machine {
	return machine{sys: os.DirFS("/sys/class"), addrs: func(netdev string) ([]netip.Addr, error) {
		i, err := net.InterfaceByName(netdev)
		if err != nil {
			return nil, err
		}
		list, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		var out []netip.Addr
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p.Addr().Unmap())
			}
		}
		return out, nil
	}}
}

// unavailable makes the one sentence that says what is missing and what to do.
func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrUnavailable}, args...)...)
}

// scan lists the endpoints that sysfs knows and cfg allows, one a port, best first: hardware before software, then by
// name and port. Of a port's addresses an IPv4 one counts most, then the first. The error says why there is none.
func (m machine) scan(cfg Config) ([]Endpoint, error) {
	devices, err := fs.ReadDir(m.sys, "infiniband")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unavailable("RDMA devices cannot be listed: %v", err)
	}
	if len(devices) == 0 {
		return nil, unavailable("this machine has no RDMA device: install a NIC's driver, or add software RoCE with " +
			"rdma link add rxe0 type rxe netdev INTERFACE")
	}
	var found []Endpoint
	var reasons []string
	for _, d := range devices {
		if cfg.Device != "" && cfg.Device != d.Name() {
			continue
		}
		list, why := m.device(d.Name(), cfg)
		found = append(found, list...)
		reasons = append(reasons, why...)
	}
	if len(found) > 0 {
		slices.SortStableFunc(found, func(a, b Endpoint) int {
			return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port),
				cmp.Compare(preference(a), preference(b)), cmp.Compare(a.GIDIndex, b.GIDIndex))
		})
		return slices.CompactFunc(found, func(a, b Endpoint) bool { return a.Device == b.Device && a.Port == b.Port }), nil
	}
	if len(reasons) == 0 {
		return nil, unavailable("there is no RDMA device %q here: take a name that ibv_devices shows", cfg.Device)
	}
	return nil, unavailable("%s", strings.Join(reasons, "; "))
}

// preference orders the addresses of one port: IPv4, then other global addresses, then link-local ones.
func preference(e Endpoint) int {
	switch {
	case e.Addr.Is4():
		return 0
	case e.Addr.IsValid() && !e.Addr.IsLinkLocalUnicast():
		return 1
	}
	return 2
}

// text reads a one-line attribute; "" if it cannot be read (empty GID entries cannot).
func (m machine) text(elem ...string) string {
	b, err := fs.ReadFile(m.sys, path.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// exists follows symbolic links.
func (m machine) exists(elem ...string) bool {
	_, err := fs.Stat(m.sys, path.Join(elem...))
	return err == nil
}

// device lists the endpoints of one device, or why it has none.
func (m machine) device(name string, cfg Config) ([]Endpoint, []string) {
	dir := path.Join("infiniband", name)
	if t := m.text(dir, "node_type"); !strings.HasPrefix(t, "1:") {
		return nil, []string{fmt.Sprintf("%s is no InfiniBand or RoCE adapter (%s), and iWARP lacks WRITE with immediate", name, t)}
	}
	base := Endpoint{Device: name, Provider: ProviderNIC, GUID: m.text(dir, "node_guid")}
	if !m.exists(dir, "device") { // software devices hang on no bus
		base.Provider = ProviderSoft
	}
	ports, err := fs.ReadDir(m.sys, path.Join(dir, "ports"))
	if err != nil {
		return nil, []string{fmt.Sprintf("the ports of %s cannot be listed: %v", name, err)}
	}
	var found []Endpoint
	var reasons []string
	for _, p := range ports {
		n, err := strconv.Atoi(p.Name())
		if err != nil || n < 1 || n > maxPorts || cfg.Port != 0 && cfg.Port != n {
			continue
		}
		e := base
		e.Port = n
		list, why := m.port(e, cfg)
		found = append(found, list...)
		if why != "" {
			reasons = append(reasons, why)
		}
	}
	if len(found)+len(reasons) == 0 {
		reasons = append(reasons, fmt.Sprintf("%s has no port %d", name, cfg.Port))
	}
	return found, reasons
}

// port lists the endpoints of a port, or why it has none.
func (m machine) port(e Endpoint, cfg Config) ([]Endpoint, string) {
	dir := path.Join("infiniband", e.Device, "ports", strconv.Itoa(e.Port))
	if state := m.text(dir, "state"); !strings.HasPrefix(state, "4:") {
		return nil, fmt.Sprintf("port %d of %s is not active (%s): connect the cable and set its network interface up",
			e.Port, e.Device, strings.TrimLeft(state, "0123456789: "))
	}
	switch layer := m.text(dir, "link_layer"); layer {
	case "Ethernet":
		e.Link = LinkEthernet
	case "InfiniBand":
		e.Link = LinkInfiniBand
		lid, err := strconv.ParseUint(m.text(dir, "lid"), 0, 16)
		if err != nil {
			return nil, fmt.Sprintf("port %d of %s has no LID: is a subnet manager running?", e.Port, e.Device)
		}
		e.LID = uint16(lid)
	default:
		return nil, fmt.Sprintf("port %d of %s has the unknown link layer %q", e.Port, e.Device, layer)
	}
	var want netip.Addr
	if cfg.Address != "" {
		a, err := netip.ParseAddr(cfg.Address)
		if err != nil {
			return nil, fmt.Sprintf("%q is not an IP address", cfg.Address)
		}
		want = a.Unmap().WithZone("")
	}
	var found []Endpoint
	for _, g := range m.gids(dir, e, cfg.GIDIndex, want) {
		if !want.IsValid() || g.Addr == want {
			found = append(found, g)
		}
	}
	if len(found) > 0 {
		return found, ""
	}
	switch {
	case want.IsValid():
		return nil, fmt.Sprintf("no GID of port %d of %s has the address %s: give the port's network interface that address, "+
			"or name one it has", e.Port, e.Device, want)
	case cfg.GIDIndex >= 0:
		return nil, fmt.Sprintf("entry %d of the GID table of port %d of %s cannot be used: it is empty or not RoCE v2",
			cfg.GIDIndex, e.Port, e.Device)
	}
	return nil, fmt.Sprintf("port %d of %s has no RoCE v2 GID of an IP address: give its network interface one", e.Port, e.Device)
}

// gids lists the usable entries of a port's GID table. On Ethernet these are RoCE v2 entries, whose GID is an IP
// address; link-local ones only when asked for by index. On InfiniBand it is the first, or the one asked for.
func (m machine) gids(dir string, e Endpoint, only int, want netip.Addr) []Endpoint {
	var found []Endpoint
	for i := range maxGIDs {
		if only >= 0 && i != only {
			continue
		}
		index := strconv.Itoa(i)
		gid, ok := parseGID(m.text(dir, "gids", index))
		if !ok {
			if !m.exists(dir, "gids", index) {
				break // the end of the table
			}
			continue
		}
		g := e
		g.GID, g.GIDIndex = gid, i
		if e.Link == LinkInfiniBand {
			g.NetDev, g.Addr = m.ipoib(e, want) // the table names no interface here
			return append(found, g)
		}
		g.NetDev, g.Addr = m.text(dir, "gid_attrs", "ndevs", index), netip.AddrFrom16(gid).Unmap()
		if m.text(dir, "gid_attrs", "types", index) != "RoCE v2" || g.Addr.IsLinkLocalUnicast() && only < 0 {
			continue
		}
		found = append(found, g)
	}
	return found
}

// ipoib finds the network interface of an InfiniBand port with its first address, or with the wanted one.
func (m machine) ipoib(e Endpoint, want netip.Addr) (string, netip.Addr) {
	list, err := fs.ReadDir(m.sys, "net")
	if err != nil {
		return "", netip.Addr{}
	}
	for _, d := range list {
		dir := path.Join("net", d.Name())
		if !m.exists(dir, "device", "infiniband", e.Device) {
			continue
		}
		if port, err := strconv.ParseUint(m.text(dir, "dev_port"), 0, 8); err != nil || int(port)+1 != e.Port {
			continue
		}
		addrs, err := m.addrs(d.Name())
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if a == want || !want.IsValid() && !a.IsLinkLocalUnicast() {
				return d.Name(), a
			}
		}
	}
	return "", netip.Addr{}
}

// parseGID reads eight groups of four hexadecimal digits; false for another form or an empty entry.
func parseGID(s string) (gid [16]byte, ok bool) {
	groups := strings.Split(s, ":")
	if len(groups) != 8 {
		return gid, false
	}
	for i, g := range groups {
		v, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) != 4 {
			return gid, false
		}
		gid[2*i], gid[2*i+1] = byte(v>>8), byte(v)
	}
	return gid, gid != [16]byte{}
}

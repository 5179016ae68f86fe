package verbs

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// gid is an entry of a port's table.
type gid struct {
	index             int
	text, kind, iface string
}

// port describes a port of a device in a made-up sysfs.
type port struct {
	state, layer, lid string
	gids              []gid
}

// sysfs makes the files of devices as the kernel shows them.
type sysfs struct{ fstest.MapFS }

func (s sysfs) file(path, text string) { s.MapFS[path] = &fstest.MapFile{Data: []byte(text + "\n")} }

// device adds a device with ports from 1 on; bus says whether it hangs on one.
func (s sysfs) device(name, nodeType string, bus bool, ports ...port) {
	dir := "infiniband/" + name + "/"
	s.file(dir+"node_type", nodeType)
	s.file(dir+"node_guid", "0002:c903:0012:3456")
	if bus {
		s.file(dir+"device/vendor", "0x15b3")
	}
	for i, p := range ports {
		dir := dir + "ports/" + strconv.Itoa(i+1) + "/"
		s.file(dir+"state", p.state)
		s.file(dir+"link_layer", p.layer)
		s.file(dir+"lid", p.lid)
		for _, g := range p.gids {
			n := strconv.Itoa(g.index)
			s.file(dir+"gids/"+n, g.text)
			if g.kind != "" {
				s.file(dir+"gid_attrs/types/"+n, g.kind)
				s.file(dir+"gid_attrs/ndevs/"+n, g.iface)
			}
		}
	}
}

const (
	noGID = "0000:0000:0000:0000:0000:0000:0000:0000"
	ca    = "1: CA"
	up    = "4: ACTIVE"
)

// roce is a table as a RoCE port has it: version 1 and 2 of every address, and empty entries.
func roce(last string) []gid {
	return []gid{
		{0, "fe80:0000:0000:0000:0202:c9ff:fe12:3456", "IB/RoCE v1", "eth1"},
		{1, "fe80:0000:0000:0000:0202:c9ff:fe12:3456", "RoCE v2", "eth1"},
		{2, noGID, "", ""},
		{3, "2001:0db8:0000:0000:0000:0000:0000:0007", "RoCE v2", "eth1"},
		{4, "0000:0000:0000:0000:0000:ffff:0a4d:00" + last, "IB/RoCE v1", "eth1"},
		{5, "0000:0000:0000:0000:0000:ffff:0a4d:00" + last, "RoCE v2", "eth1"},
	}
}

func newSysfs() sysfs {
	s := sysfs{fstest.MapFS{}}
	s.device("rxe0", ca, false, port{up, "Ethernet", "0x0", roce("01")})
	s.device("mlx5_1", ca, true,
		port{"1: DOWN", "Ethernet", "0x0", roce("02")},
		port{up, "Ethernet", "0x0", roce("03")})
	return s
}

func (s sysfs) machine(addrs ...string) machine {
	return machine{sys: s, addrs: func(string) ([]netip.Addr, error) {
		var out []netip.Addr
		for _, a := range addrs {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}}
}

func with(change func(*Config)) Config {
	c := DefaultConfig()
	if change != nil {
		change(&c)
	}
	return c
}

func TestScanOrdersEndpoints(t *testing.T) {
	list, err := newSysfs().machine().scan(DefaultConfig())
	require.NoError(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Provider+" "+e.Device+" "+strconv.Itoa(e.Port)+" "+e.Addr.String()+" "+strconv.Itoa(e.GIDIndex))
	}
	require.Equal(t, []string{"rdma mlx5_1 2 10.77.0.3 5", "rdma-rxe rxe0 1 10.77.0.1 5"}, got)
	six := sysfs{fstest.MapFS{}}
	six.device("rxe0", ca, false, port{up, "Ethernet", "0x0", roce("01")[:4]})
	only, err := six.machine().scan(DefaultConfig())
	require.NoError(t, err)
	require.Equal(t, "2001:db8::7", only[0].Addr.String(), "IPv6 where there is no IPv4")
	e := list[0]
	require.Equal(t, LinkEthernet, e.Link)
	require.Equal(t, "0002:c903:0012:3456", e.GUID)
	require.Equal(t, "eth1", e.NetDev)
	require.Equal(t, netip.MustParseAddr("10.77.0.3"), netip.AddrFrom16(e.GID).Unmap())
}

func TestScanObeysConfig(t *testing.T) {
	m := newSysfs().machine()
	one := func(change func(*Config)) Endpoint {
		t.Helper()
		list, err := m.scan(with(change))
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}
	require.Equal(t, "rxe0", one(func(c *Config) { c.Address = "10.77.0.1" }).Device)
	require.Equal(t, 5, one(func(c *Config) { c.Address = "::ffff:10.77.0.3" }).GIDIndex)
	require.Equal(t, 3, one(func(c *Config) { c.Device, c.Address = "rxe0", "2001:db8::7" }).GIDIndex)
	require.Equal(t, 1, one(func(c *Config) { c.Device, c.GIDIndex = "rxe0", 1 }).GIDIndex, "a link-local one, since it was asked for")
	e := one(func(c *Config) { c.Device, c.Port, c.GIDIndex = "mlx5_1", 2, 5 })
	again := one(func(c *Config) { *c = c.At(e) })
	require.Equal(t, e, again)
}

func TestScanInfiniBand(t *testing.T) {
	s := sysfs{fstest.MapFS{}}
	table := []gid{{0, "fe80:0000:0000:0000:0002:c903:0012:3457", "", ""}, {1, noGID, "", ""}}
	s.device("mlx5_0", ca, true, port{"5: ACTIVE_DEFER", "InfiniBand", "0x11", table}, port{up, "InfiniBand", "0x12", table})
	s.file("net/ib0/device/infiniband/mlx5_0/node_type", ca)
	s.file("net/ib0/dev_port", "0")
	s.file("net/ib1/device/infiniband/mlx5_0/node_type", ca)
	s.file("net/ib1/dev_port", "1")
	s.file("net/lo/dev_port", "0")
	list, err := s.machine("fe80::1", "192.168.9.4", "192.168.9.5").scan(DefaultConfig())
	require.NoError(t, err)
	require.Len(t, list, 1)
	e := list[0]
	require.Equal(t, LinkInfiniBand, e.Link)
	require.Equal(t, uint16(0x12), e.LID)
	require.Equal(t, 0, e.GIDIndex)
	require.Equal(t, "ib1", e.NetDev)
	require.Equal(t, "192.168.9.4", e.Addr.String())
	e.MTU = 4096
	require.Equal(t, "mlx5_0 port 2, InfiniBand 192.168.9.4 (GID 0), MTU 4096", e.String())

	list, err = s.machine("192.168.9.4", "192.168.9.5").scan(with(func(c *Config) { c.Address = "192.168.9.5" }))
	require.NoError(t, err)
	require.Equal(t, "192.168.9.5", list[0].Addr.String())

	list, err = s.machine().scan(DefaultConfig())
	require.NoError(t, err, "an InfiniBand port needs no IP address")
	require.Contains(t, list[0].String(), "LID 18")
}

// TestScanSaysWhatIsMissing: one sentence each, with what to do.
func TestScanSaysWhatIsMissing(t *testing.T) {
	empty := sysfs{fstest.MapFS{}}
	none := sysfs{fstest.MapFS{}}
	none.device("siw0", "4: RNIC", false, port{up, "Ethernet", "0x0", roce("01")})
	v1 := sysfs{fstest.MapFS{}}
	v1.device("mlx4_0", ca, true, port{up, "Ethernet", "0x0", []gid{{0, "0000:0000:0000:0000:0000:ffff:0a4d:0001", "IB/RoCE v1", "eth1"}}})
	odd := sysfs{fstest.MapFS{}}
	odd.device("hfi1_0", ca, true, port{up, "Unknown", "0x0", nil})
	broken := sysfs{fstest.MapFS{}}
	broken.device("mlx5_0", ca, true, port{up, "InfiniBand", "?", nil})
	for name, c := range map[string]struct {
		sys    sysfs
		change func(*Config)
		want   []string
	}{
		"no device":      {empty, nil, []string{"no RDMA device", "rdma link add"}},
		"no such device": {newSysfs(), func(c *Config) { c.Device = "mlx5_7" }, []string{`"mlx5_7"`, "ibv_devices"}},
		"no such port":   {newSysfs(), func(c *Config) { c.Device, c.Port = "rxe0", 4 }, []string{"rxe0", "port 4"}},
		"port down":      {newSysfs(), func(c *Config) { c.Device, c.Port = "mlx5_1", 1 }, []string{"port 1 of mlx5_1", "not active (DOWN)", "cable"}},
		"no such address": {newSysfs(), func(c *Config) { c.Device, c.Address = "rxe0", "10.77.0.9" },
			[]string{"no GID", "10.77.0.9", "rxe0"}},
		"no such entry":   {newSysfs(), func(c *Config) { c.Device, c.GIDIndex = "rxe0", 9 }, []string{"entry 9", "rxe0"}},
		"entry of v1":     {newSysfs(), func(c *Config) { c.Device, c.GIDIndex = "rxe0", 4 }, []string{"entry 4", "RoCE v2"}},
		"iWARP":           {none, nil, []string{"siw0", "iWARP"}},
		"RoCE v1 only":    {v1, nil, []string{"mlx4_0", "no RoCE v2 GID"}},
		"odd link":        {odd, nil, []string{"hfi1_0", `"Unknown"`}},
		"no LID":          {broken, nil, []string{"mlx5_0", "subnet manager"}},
		"several reasons": {newSysfs(), func(c *Config) { c.Address = "10.77.0.2" }, []string{"port 1 of mlx5_1 is not active", "; no GID of port 2 of mlx5_1"}},
	} {
		_, err := c.sys.machine().scan(with(c.change))
		require.ErrorIs(t, err, fabric.ErrUnavailable, name)
		for _, want := range c.want {
			require.ErrorContains(t, err, want, name)
		}
		require.NotContains(t, err.Error(), "\n", name)
	}
}

func TestParseGID(t *testing.T) {
	g, ok := parseGID("fe80:0000:0000:0000:0202:c9ff:fe12:3456")
	require.True(t, ok)
	require.Equal(t, [16]byte{0xfe, 0x80, 8: 2, 9: 2, 10: 0xc9, 11: 0xff, 12: 0xfe, 13: 0x12, 14: 0x34, 15: 0x56}, g)
	for _, s := range []string{"", noGID, "fe80::1", "fe80:0000:0000:0000:0202:c9ff:fe12", strings.Repeat("0001:", 8) + "0001",
		"fe80:0000:0000:0000:0202:c9ff:fe12:345", "fe80:0000:0000:0000:0202:c9ff:fe12:345g", "fe80:0000:0000:0000:0202:c9ff:fe12:+345"} {
		_, ok := parseGID(s)
		require.False(t, ok, s)
	}
}

// TestUnavailable: whatever this machine lacks, the error is of the right kind.
func TestUnavailable(t *testing.T) {
	cfg := with(func(c *Config) { c.Device = "no-such-device" })
	list, err := Find(cfg)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	require.Empty(t, list)
	d, err := Open(cfg, nil)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	require.Nil(t, d)
	cfg.Retry = 7
	_, err = Open(cfg, nil)
	require.Error(t, err)
	require.False(t, errors.Is(err, fabric.ErrUnavailable), "a wrong setting is not a lack")
}

func TestConfig(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	for name, change := range map[string]func(*Config){
		"port":          func(c *Config) { c.Port = -1 },
		"gid_index":     func(c *Config) { c.GIDIndex = -2 },
		"address":       func(c *Config) { c.Address = "10.0.0" },
		"mtu":           func(c *Config) { c.MTU = 1500 },
		"traffic_class": func(c *Config) { c.TrafficClass = 256 },
		"service_level": func(c *Config) { c.ServiceLevel = 16 },
		"hop_limit":     func(c *Config) { c.HopLimit = 0 },
		"timeout":       func(c *Config) { c.Timeout = 7 },
		"retry":         func(c *Config) { c.Retry = 7 },
	} {
		require.ErrorContains(t, with(change).Validate(), name)
	}
	for code, bytes := range map[uint8]int{1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096} {
		require.Equal(t, code, mtuCode(bytes))
		require.Equal(t, bytes, mtuBytes(code))
	}
	require.Zero(t, mtuBytes(0)+mtuBytes(6)+int(mtuCode(8192)))
}

package verbs

import (
	"fmt"
	"net/netip"
)

// Config says which port to use and how.
type Config struct {
	Device   string `mapstructure:"device" comment:"RDMA device, as rdma link or ibv_devices show it; empty: the best one"`
	Port     int    `mapstructure:"port" comment:"port of the device; 0: any active one"`
	GIDIndex int    `mapstructure:"gid_index" comment:"entry of the port's GID table; -1: the RoCE v2 one of the node's address"`
	Address  string `mapstructure:"address" comment:"this node's IP address on the RDMA network; empty: any"`

	MTU          int  `mapstructure:"mtu" comment:"largest path MTU in bytes: 256, 512, 1024, 2048 or 4096"`
	TrafficClass int  `mapstructure:"traffic_class" comment:"traffic class of the packets (DSCP in the upper six bits), 0-255; see docs/rdma.md on PFC and ECN"`
	ServiceLevel int  `mapstructure:"service_level" comment:"service level or priority, 0-15"`
	HopLimit     int  `mapstructure:"hop_limit" comment:"routers a packet may pass, 1-255"`
	Timeout      int  `mapstructure:"timeout" comment:"acknowledgement time-out, as 4.096 us * 2^n, 8-21; 14 is 67 ms"`
	Retry        int  `mapstructure:"retry" comment:"how often an unanswered packet is sent again before the link falls back, 1-6"`
	HugePages    bool `mapstructure:"huge_pages" comment:"use huge pages for buffers where the machine has free ones"`
	Windows      bool `mapstructure:"memory_windows" comment:"expose buffers by memory windows where the device has them; false: by registrations of their own"`
}

// DefaultConfig takes the best port that works.
func DefaultConfig() Config {
	return Config{
		GIDIndex: -1, MTU: 4096, HopLimit: 64, Timeout: 14, Retry: 6, HugePages: true, Windows: true,
	}
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	between := func(name string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("verbs: %s is %d: use %d to %d", name, v, low, high)
		}
		return nil
	}
	for _, err := range []error{
		between("port", c.Port, 0, maxPorts),
		between("gid_index", c.GIDIndex, -1, maxGIDs-1),
		between("traffic_class", c.TrafficClass, 0, 255),
		between("service_level", c.ServiceLevel, 0, 15),
		between("hop_limit", c.HopLimit, 1, 255),
		between("timeout", c.Timeout, 8, 21), // below, acknowledgements that are only late count as lost
		between("retry", c.Retry, 1, 6),      // 7 never ends on software RoCE
	} {
		if err != nil {
			return err
		}
	}
	if mtuCode(c.MTU) == 0 {
		return fmt.Errorf("verbs: mtu is %d: use 256, 512, 1024, 2048 or 4096", c.MTU)
	}
	if c.Address != "" {
		if _, err := netip.ParseAddr(c.Address); err != nil {
			return fmt.Errorf("verbs: address %q is not an IP address", c.Address)
		}
	}
	return nil
}

// At is the configuration that names exactly the endpoint.
func (c Config) At(e Endpoint) Config {
	c.Device, c.Port, c.GIDIndex, c.Address = e.Device, e.Port, e.GIDIndex, ""
	return c
}

// mtuCode is the verbs' number of an MTU in bytes, 0 if there is none.
func mtuCode(bytes int) uint8 {
	for code := uint8(1); code <= 5; code++ {
		if mtuBytes(code) == bytes {
			return code
		}
	}
	return 0
}

// mtuBytes is the MTU of a code of the verbs, 0 for another number.
func mtuBytes(code uint8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

package testnet
import "testing"
func (p *properties) performance(t *testing.T) {}
func (p *properties) tamperResistance(t *testing.T) {}
func (p *properties) decentralisedSecurity(t *testing.T) {}
func (p *properties) authorisation(t *testing.T) {}
func (p *properties) integrityVerification(t *testing.T) {}
func (p *properties) multiTenantIsolation(t *testing.T) {}

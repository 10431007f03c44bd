//! The address policy: requests may go to public addresses, and to those that the operator allows.
//!
//! Only `AddressPolicy::check` can make a `CheckedAddress`, and the dialer takes nothing else, so no address is
//! dialled unchecked.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The operator's rules about where requests may go. The default allows public unicast addresses only.
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    /// Networks that are allowed even if another rule refuses them. Does not allow single-label names.
    pub allow: Vec<IpNet>,
    /// Addresses that this installation itself answers on.
    pub own_addresses: Vec<IpAddr>,
    /// Allows loopback and single-label names, for a developer's machine.
    pub dev: bool,
}

/// An address that a policy let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedAddress {
    address: SocketAddr,
    is_listed: bool,
}

impl CheckedAddress {
    pub const fn address(self) -> SocketAddr {
        self.address
    }

    /// Whether the allow list or `dev` admitted this address. It may then be one of our own.
    pub const fn is_listed(self) -> bool {
        self.is_listed
    }
}

/// The error for every forbidden address. Names neither the rule nor the address, so that it cannot be used to
/// explore a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address not allowed")]
pub struct ForbiddenAddress;

impl AddressPolicy {
    /// Checks an address against the policy. An IPv4-mapped IPv6 address is matched against the lists in both
    /// forms and returned as IPv4; it is refused if it is not listed.
    pub fn check(&self, address: SocketAddr) -> Result<CheckedAddress, ForbiddenAddress> {
        let written = address.ip();
        let meant = written.to_canonical();
        let checked =
            |is_listed| CheckedAddress { address: SocketAddr::new(meant, address.port()), is_listed };
        if self.allow.iter().any(|net| net.contains(&meant) || net.contains(&written))
            || (self.dev && meant.is_loopback())
        {
            Ok(checked(true))
        } else if is_public(written) && !self.own_addresses.iter().any(|own| own.to_canonical() == meant) {
            Ok(checked(false))
        } else {
            Err(ForbiddenAddress)
        }
    }

    /// Whether a name may be looked up. Single labels and `localhost` depend on one machine or network, so they
    /// need `dev`.
    pub fn allows_name(&self, name: &str) -> bool {
        self.dev || (name.contains('.') && !name.ends_with(".localhost"))
    }
}

/// Whether an address is globally routable public unicast, with no other address hidden in it.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !REFUSED_V4.iter().any(|&(block, prefix)| is_within_v4(v4, block, prefix)),
        IpAddr::V6(v6) => {
            is_within_v6(v6, GLOBAL_V6.0, GLOBAL_V6.1)
                && !REFUSED_V6.iter().any(|&(block, prefix)| is_within_v6(v6, block, prefix))
                && !is_isatap(v6)
        }
    }
}

/// Every block of the IANA special-purpose registry, and multicast. Globally reachable blocks are included too:
/// anycast services and the like are no receivers.
const REFUSED_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, cloud metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // IETF protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relay
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

/// The only IPv6 block that public unicast is assigned from. Blocks outside it need no list: loopback, mapped,
/// compatible and SIIT-translated IPv4, NAT64 (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), SRv6 (5f00::/16),
/// unique local, link-local, site-local, multicast.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const REFUSED_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // IETF protocol assignments: Teredo, ORCHID, AMT, …
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: an IPv4 address follows
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

fn is_within_v4(address: Ipv4Addr, block: Ipv4Addr, prefix: u32) -> bool {
    (address.to_bits() ^ block.to_bits()) >> (32 - prefix) == 0
}

fn is_within_v6(address: Ipv6Addr, block: Ipv6Addr, prefix: u32) -> bool {
    (address.to_bits() ^ block.to_bits()) >> (128 - prefix) == 0
}

/// ISATAP hides an IPv4 address behind the interface identifier `[02]00:5efe` under any prefix.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    segments[4] & !0x0200 == 0 && segments[5] == 0x5efe
}

#[cfg(test)]
mod tests;

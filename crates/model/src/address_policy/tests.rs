//! The address rules against every special-purpose block and an independent model.

use super::*;
use proptest::prelude::*;

/// A block, whether the address before it is public, and whether the one after it is.
const V4_BLOCKS: [(&str, bool, bool); 20] = [
    ("0.0.0.0/8", false, true),
    ("10.0.0.0/8", true, true),
    ("100.64.0.0/10", true, true),
    ("127.0.0.0/8", true, true),
    ("169.254.0.0/16", true, true),
    ("172.16.0.0/12", true, true),
    ("192.0.0.0/24", true, true),
    ("192.0.0.0/29", true, false),
    ("192.0.2.0/24", true, true),
    ("192.31.196.0/24", true, true),
    ("192.52.193.0/24", true, true),
    ("192.88.99.0/24", true, true),
    ("192.168.0.0/16", true, true),
    ("192.175.48.0/24", true, true),
    ("198.18.0.0/15", true, true),
    ("198.51.100.0/24", true, true),
    ("203.0.113.0/24", true, true),
    ("224.0.0.0/4", true, false),
    ("240.0.0.0/4", false, false),
    ("255.255.255.255/32", false, false),
];

const V6_BLOCKS: [(&str, bool, bool); 35] = [
    ("::/128", false, false),
    ("::1/128", false, false),
    ("::/96", false, false),
    ("::ffff:0:0/96", false, false),
    ("::ffff:0:0:0/96", false, false),
    ("64:ff9b::/96", false, false),
    ("64:ff9b:1::/48", false, false),
    ("100::/64", false, false),
    ("100:0:0:1::/64", false, false),
    ("200::/7", false, false),
    ("400::/6", false, false),
    ("1000::/4", false, true),
    ("2001::/23", true, true),
    ("2001::/32", true, false),
    ("2001:1::1/128", false, false),
    ("2001:1::2/128", false, false),
    ("2001:1::3/128", false, false),
    ("2001:2::/48", false, false),
    ("2001:3::/32", false, false),
    ("2001:4:112::/48", false, false),
    ("2001:10::/28", false, false),
    ("2001:20::/28", false, false),
    ("2001:30::/28", false, false),
    ("2001:db8::/32", true, true),
    ("2002::/16", true, true),
    ("2620:4f:8000::/48", true, true),
    ("3fff::/20", true, true),
    ("4000::/3", true, false),
    ("5f00::/16", false, false),
    ("6000::/3", false, false),
    ("fc00::/7", false, false),
    ("fd00:ec2::254/128", false, false),
    ("fe80::/10", false, false),
    ("fec0::/10", false, false),
    ("ff00::/8", false, false),
];

/// Returns the ways to write an IPv4 address inside an IPv6 one; the last two under prefixes that are otherwise public.
fn hidden(v4: Ipv4Addr) -> [(&'static str, Ipv6Addr); 9] {
    let low = u128::from(v4.to_bits());
    let at = |prefix: &str, shift: u32| {
        Ipv6Addr::from_bits(prefix.parse::<Ipv6Addr>().unwrap().to_bits() | low << shift)
    };
    [
        ("mapped", at("::ffff:0:0", 0)),
        ("compatible", at("::", 0)),
        ("SIIT", at("::ffff:0:0:0", 0)),
        ("NAT64", at("64:ff9b::", 0)),
        ("local NAT64", at("64:ff9b:1::", 0)),
        ("6to4", at("2002::", 80)),
        ("Teredo", at("2001:0:4136:e378::", 0)),
        ("ISATAP, private", at("2a00:1450:4001:800:0:5efe:0:0", 0)),
        ("ISATAP, global", at("2606:4700::200:5efe:0:0", 0)),
    ]
}

fn check(ip: IpAddr) -> bool {
    AddressPolicy::default().check(SocketAddr::new(ip, 443)).is_ok()
}

#[test]
fn every_special_block_is_refused_up_to_its_edges() {
    let mut cases = 0;
    let mut expect = |ip: Option<IpAddr>, allowed: bool, block: &str| {
        let Some(ip) = ip else { return };
        cases += 1;
        assert_eq!(check(ip), allowed, "{ip} at {block}");
    };
    for (block, before, after) in V4_BLOCKS {
        let net: ipnet::Ipv4Net = block.parse().unwrap();
        let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
        for inside in [first, last, first + (last - first) / 2] {
            expect(Some(Ipv4Addr::from_bits(inside).into()), false, block);
        }
        expect(first.checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into()), before, block);
        expect(last.checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()), after, block);
        for edge in [first, last] {
            for (form, v6) in hidden(Ipv4Addr::from_bits(edge)) {
                expect(Some(v6.into()), false, form);
            }
        }
    }
    for (block, before, after) in V6_BLOCKS {
        let net: ipnet::Ipv6Net = block.parse().unwrap();
        let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
        for inside in [first, last, first + (last - first) / 2] {
            expect(Some(Ipv6Addr::from_bits(inside).into()), false, block);
        }
        expect(first.checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into()), before, block);
        expect(last.checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()), after, block);
    }
    for (form, v6) in hidden(Ipv4Addr::new(93, 184, 216, 34)) {
        expect(Some(v6.into()), false, form);
    }
    for public in ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:800::200e"]
    {
        expect(Some(public.parse().unwrap()), true, "public");
    }
    assert!(cases >= 400, "{cases}");
}

/// An independent model of the rules, so that a slip in either shows.
fn model(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !matches!(
            v4.octets(),
            [0 | 10 | 127 | 224.., ..]
                | [100, 64..128, ..]
                | [169, 254, ..]
                | [172, 16..32, ..]
                | [192, 168, ..]
                | [192, 0, 0 | 2, _]
                | [192, 31, 196, _]
                | [192, 52, 193, _]
                | [192, 88, 99, _]
                | [192, 175, 48, _]
                | [198, 18 | 19, ..]
                | [198, 51, 100, _]
                | [203, 0, 113, _]
        ),
        IpAddr::V6(v6) => match v6.segments() {
            [.., 0 | 0x200, 0x5efe, _, _]
            | [0x2001, ..0x200 | 0xdb8, ..]
            | [0x2002, ..]
            | [0x2620, 0x4f, 0x8000, ..]
            | [0x3fff, ..0x1000, ..] => false,
            [first, ..] => first >> 13 == 1,
        },
    }
}

/// Generates any address, but mostly ones near the edges of blocks.
fn any_address() -> impl Strategy<Value = IpAddr> {
    let nets: Vec<IpNet> =
        V4_BLOCKS.iter().chain(&V6_BLOCKS).map(|(block, ..)| block.parse().unwrap()).collect();
    let near =
        (prop::sample::select(nets), any::<u128>(), 0u32..128).prop_map(|(net, noise, keep)| match net {
            IpNet::V4(net) => {
                let edge = if noise & 1 == 0 { net.network() } else { net.broadcast() }.to_bits();
                Ipv4Addr::from_bits(edge ^ (noise as u32).checked_shr(keep).unwrap_or(0)).into()
            }
            IpNet::V6(net) => {
                let edge = if noise & 1 == 0 { net.network() } else { net.broadcast() }.to_bits();
                Ipv6Addr::from_bits(edge ^ noise.checked_shr(keep).unwrap_or(0)).into()
            }
        });
    let hiding =
        (any::<u32>(), 0usize..9).prop_map(|(v4, form)| hidden(Ipv4Addr::from_bits(v4))[form].1.into());
    prop_oneof![
        4 => near,
        1 => any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
        1 => any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into()),
        1 => hiding,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    #[test]
    fn the_table_agrees_with_an_independent_model(ip in any_address()) {
        prop_assert_eq!(check(ip), model(ip), "{}", ip);
    }

    #[test]
    fn a_listed_address_is_allowed_although_another_rule_refuses_it(ip in any_address()) {
        let policy = AddressPolicy { allow: vec![IpNet::from(ip)], own_addresses: vec![ip], dev: false };
        let checked = policy.check(SocketAddr::new(ip, 80)).unwrap();
        prop_assert!(checked.is_listed());
        prop_assert_eq!(checked.address(), SocketAddr::new(ip.to_canonical(), 80));
    }

    #[test]
    fn an_own_address_is_refused_in_either_spelling(ip in any_address()) {
        let policy = AddressPolicy { own_addresses: vec![ip], ..AddressPolicy::default() };
        prop_assert_eq!(policy.check(SocketAddr::new(ip, 80)), Err(ForbiddenAddress));
        if let IpAddr::V4(v4) = ip {
            let mapped = AddressPolicy { own_addresses: vec![v4.to_ipv6_mapped().into()], ..AddressPolicy::default() };
            prop_assert_eq!(mapped.check(SocketAddr::new(ip, 80)), Err(ForbiddenAddress));
        }
    }
}

#[test]
fn the_allow_list_allows_only_its_networks() {
    let policy = AddressPolicy { allow: vec!["10.1.0.0/16".parse().unwrap()], ..AddressPolicy::default() };
    for (address, allowed) in [
        ("10.1.0.0:80", true),
        ("10.1.255.255:80", true),
        ("[::ffff:10.1.2.3]:80", true),
        ("10.0.255.255:80", false),
        ("10.2.0.0:80", false),
        ("[::ffff:10.2.0.0]:80", false),
        ("[::10.1.2.3]:80", false),
        ("[64:ff9b::10.1.2.3]:80", false),
        ("127.0.0.1:80", false),
        ("8.8.8.8:80", true),
    ] {
        assert_eq!(policy.check(address.parse().unwrap()).is_ok(), allowed, "{address}");
    }
    assert!(!policy.allows_name("backend"));
}

#[test]
fn dev_allows_only_loopback_and_single_labels() {
    let dev = AddressPolicy {
        dev: true,
        own_addresses: vec![Ipv4Addr::LOCALHOST.into()],
        ..AddressPolicy::default()
    };
    for (address, allowed) in [
        ("127.0.0.1:80", true),
        ("127.9.9.9:80", true),
        ("[::1]:80", true),
        ("10.0.0.1:80", false),
        ("0.0.0.0:80", false),
    ] {
        assert_eq!(dev.check(address.parse().unwrap()).is_ok(), allowed, "{address}");
    }
    assert!(dev.allows_name("localhost") && dev.allows_name("api.localhost"));
    let serve = AddressPolicy::default();
    assert!(!serve.allows_name("localhost") && !serve.allows_name("api.localhost"));
    assert!(serve.allows_name("api.example.com"));
}

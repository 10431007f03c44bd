//! The built-in contracts by name, for tests.

use super::Contract;

pub fn all() -> Vec<Contract> {
    Contract::builtin().expect("a valid value")
}

macro_rules! by_name {
    ($($name:ident),+) => {
        $(pub fn $name() -> Contract {
            all().into_iter().find(|contract| contract.name == stringify!($name)).expect("a valid value")
        })+
    };
}

by_name!(standard, zerofee, bastionary, orientedos, sendnomi, simpaisa);

//! The built-in contracts by name, for tests.

use super::Contract;

pub(crate) fn all() -> Vec<Contract> {
    Contract::builtin().unwrap()
}

macro_rules! by_name {
    ($($name:ident),+) => {
        $(pub(crate) fn $name() -> Contract {
            all().into_iter().find(|contract| contract.name == stringify!($name)).unwrap()
        })+
    };
}

by_name!(standard, zerofee, bastionary, orientedos, sendnomi, simpaisa);

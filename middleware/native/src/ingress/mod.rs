//! What comes in: which identities are new, and whether a block holds those that it claims.

pub mod claims;
pub mod ids;
pub mod seen;

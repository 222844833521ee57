//! Ingress: identities that are new, and the check that a block holds the identities that its head claims.

pub mod claims;
pub mod ids;
#[cfg(feature = "python")]
pub mod python;
pub mod seen;

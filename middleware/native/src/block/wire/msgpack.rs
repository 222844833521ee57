//! Numbers in MessagePack, of which identities are hashes: as msgspec writes them.

/// An integer in MessagePack, in as few bytes as it takes; how many.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ranges are those of the types")]
#[inline]
pub fn encode(value: i64, bytes: &mut [u8]) -> usize {
    let mut put = |tag: Option<u8>, payload: &[u8]| {
        let at = usize::from(tag.is_some());
        if let Some(tag) = tag {
            bytes[0] = tag;
        }
        bytes[at..at + payload.len()].copy_from_slice(payload);
        at + payload.len()
    };
    match value {
        -32..=127 => put(None, &[value as u8]),
        128..=0xFF => put(Some(0xCC), &[value as u8]),
        0x100..=0xFFFF => put(Some(0xCD), &(value as u16).to_be_bytes()),
        0x1_0000..=0xFFFF_FFFF => put(Some(0xCE), &(value as u32).to_be_bytes()),
        0x1_0000_0000.. => put(Some(0xCF), &value.to_be_bytes()),
        -128..=-33 => put(Some(0xD0), &[value as u8]),
        -0x8000..=-129 => put(Some(0xD1), &(value as i16).to_be_bytes()),
        -0x8000_0000..=-0x8001 => put(Some(0xD2), &(value as i32).to_be_bytes()),
        _ => put(Some(0xD3), &value.to_be_bytes()),
    }
}

//! Frames for the tests of the virtual clock.

/// A UDP frame of 60 bytes (64 with the frame check sequence) of flow number `flow`.
pub(crate) fn udp_frame(flow: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&(0x0a00_0000 | flow).to_be_bytes());
    frame[30..34].copy_from_slice(&[192, 168, 0, 1]);
    frame[34..38].copy_from_slice(&[0x12, 0x34, 0, 53]);
    frame[38..40].copy_from_slice(&26u16.to_be_bytes());
    frame
}

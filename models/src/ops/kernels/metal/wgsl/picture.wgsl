// The sizes of a convolution or a pool of pictures [n, h, w, c], whose windows have a place for each number of [n, h', w'].
// `count` are the numbers that are written.
struct Picture {
    count: u32, height: u32, width: u32, to_height: u32,
    to_width: u32, channels: u32, side: u32, stride: u32,
    padding: u32, pad0: u32, pad1: u32, pad2: u32,
}

// Rows, and columns, of a place or a pixel: its number is taken apart by the sides.
fn apart(number: u32, height: u32, width: u32) -> vec3<u32> {
    return vec3<u32>(number / width / height, number / width % height, number % width);
}

// Where a window meets a pixel with its tap: the window along one side, or one that there is not.
const NOWHERE: u32 = 0xffffffff;
fn window_of(pixel: u32, tap: u32, padding: u32, stride: u32, windows: u32) -> u32 {
    let padded = pixel + padding;
    if padded < tap || (padded - tap) % stride != 0 || (padded - tap) / stride >= windows { return NOWHERE; }
    return (padded - tap) / stride;
}

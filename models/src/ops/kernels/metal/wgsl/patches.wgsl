// x [n, h, w, c] -> what each window sees, [n h' w', k k c], with zeros around the pictures.
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read_write> rows: array<Stored>;
@group(0) @binding(2) var<uniform> shape: Picture;

@compute @workgroup_size(256)
fn patches(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = shape.channels / LANES;
    let taps = shape.side * shape.side;
    for (var at = id.x; at < shape.count / LANES; at += groups.x * THREADS) {
        let tap = at / packs % taps;
        let window = apart(at / packs / taps, shape.to_height, shape.to_width);
        let row = window.y * shape.stride + tap / shape.side;
        let column = window.z * shape.stride + tap % shape.side;
        let inside = row >= shape.padding && row < shape.height + shape.padding
            && column >= shape.padding && column < shape.width + shape.padding;
        if !inside {
            rows[at] = narrow(Wide(0.0));
            continue;
        }
        let pixel = (window.x * shape.height + row - shape.padding) * shape.width + column - shape.padding;
        rows[at] = x[pixel * packs + at % packs];
    }
}

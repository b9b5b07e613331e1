// The largest number of each window, and the first tap where it is.
@group(0) @binding(0) var<storage, read> x: array<Stored>;
@group(0) @binding(1) var<storage, read_write> y: array<Stored>;
@group(0) @binding(2) var<storage, read_write> chosen: array<Index>;
@group(0) @binding(3) var<uniform> shape: Picture;

@compute @workgroup_size(256)
fn max_pool(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = shape.channels / LANES;
    for (var at = id.x; at < shape.count / LANES; at += groups.x * THREADS) {
        let window = apart(at / packs, shape.to_height, shape.to_width);
        var most = Wide(FAR_BELOW);
        var tap = splat(0);
        for (var r = 0u; r < shape.side; r++) {
            let row = window.y * shape.stride + r;
            if row < shape.padding || row >= shape.height + shape.padding { continue; }
            for (var t = 0u; t < shape.side; t++) {
                let column = window.z * shape.stride + t;
                if column < shape.padding || column >= shape.width + shape.padding { continue; }
                let pixel = (window.x * shape.height + row - shape.padding) * shape.width + column - shape.padding;
                let here = widen(x[pixel * packs + at % packs]);
                tap = select(tap, splat(r * shape.side + t), here > most);
                most = max(most, here);
            }
        }
        y[at] = narrow(most);
        chosen[at] = tap;
    }
}

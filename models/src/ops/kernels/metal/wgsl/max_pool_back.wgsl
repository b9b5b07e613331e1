// The gradient of each pixel: the sum of those of the windows that chose it.
@group(0) @binding(0) var<storage, read> gradient: array<Stored>;
@group(0) @binding(1) var<storage, read> chosen: array<Index>;
@group(0) @binding(2) var<storage, read_write> dx: array<Stored>;
@group(0) @binding(3) var<uniform> shape: Picture;

@compute @workgroup_size(256)
fn max_pool_back(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let packs = shape.channels / LANES;
    for (var at = id.x; at < shape.count / LANES; at += groups.x * THREADS) {
        let pixel = apart(at / packs, shape.height, shape.width);
        var sum = Wide(0.0);
        for (var r = 0u; r < shape.side; r++) {
            let down = window_of(pixel.y, r, shape.padding, shape.stride, shape.to_height);
            if down == NOWHERE { continue; }
            for (var t = 0u; t < shape.side; t++) {
                let across = window_of(pixel.z, t, shape.padding, shape.stride, shape.to_width);
                if across == NOWHERE { continue; }
                let window = (pixel.x * shape.to_height + down) * shape.to_width + across;
                let number = window * packs + at % packs;
                sum += select(Wide(0.0), widen(gradient[number]), chosen[number] == splat(r * shape.side + t));
            }
        }
        dx[at] = narrow(sum);
    }
}

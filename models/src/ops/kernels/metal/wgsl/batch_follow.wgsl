// Running mean and variance move towards those of a batch, `now` [2, width], by `share`. All are f32.
struct Follow { width: u32, share: f32, unbiased: f32, pad: u32 }
@group(0) @binding(0) var<storage, read> mean: array<Wide>;
@group(0) @binding(1) var<storage, read> variance: array<Wide>;
@group(0) @binding(2) var<storage, read> now: array<Wide>;
@group(0) @binding(3) var<storage, read_write> after: array<Wide>;
@group(0) @binding(4) var<uniform> follow: Follow;

@compute @workgroup_size(256)
fn batch_follow(@builtin(global_invocation_id) id: vec3<u32>) {
    let packs = follow.width / LANES;
    let at = id.x;
    if at >= packs { return; }
    after[at] = mean[at] * (1.0 - follow.share) + now[at] * follow.share;
    after[packs + at] = variance[at] * (1.0 - follow.share) + now[packs + at] * follow.unbiased * follow.share;
}

// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Wide;
struct type_3 {
    metal::uint4 inner[3];
};
struct AdamW {
    type_3 counts;
    type_3 starts;
    float gradient_scale;
    float beta1_;
    float rest1_;
    float beta2_;
    float rest2_;
    float epsilon;
    float shrink;
    float rate;
    float correction;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Wide type_4[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide gradient(
    uint parameter,
    uint i_1,
    device type_4 const& gradient_a,
    device type_4 const& gradient_b,
    device type_4 const& gradient_c,
    device type_4 const& gradient_d,
    device type_4 const& gradient_e,
    device type_4 const& gradient_f,
    device type_4 const& gradient_g,
    device type_4 const& gradient_h,
    device type_4 const& gradient_i,
    device type_4 const& gradient_j,
    device type_4 const& gradient_k,
    device type_4 const& gradient_l
) {
    switch(parameter) {
        case 0u: {
            Wide _e4 = gradient_a[i_1];
            return _e4;
        }
        case 1u: {
            Wide _e7 = gradient_b[i_1];
            return _e7;
        }
        case 2u: {
            Wide _e10 = gradient_c[i_1];
            return _e10;
        }
        case 3u: {
            Wide _e13 = gradient_d[i_1];
            return _e13;
        }
        case 4u: {
            Wide _e16 = gradient_e[i_1];
            return _e16;
        }
        case 5u: {
            Wide _e19 = gradient_f[i_1];
            return _e19;
        }
        case 6u: {
            Wide _e22 = gradient_g[i_1];
            return _e22;
        }
        case 7u: {
            Wide _e25 = gradient_h[i_1];
            return _e25;
        }
        case 8u: {
            Wide _e28 = gradient_i[i_1];
            return _e28;
        }
        case 9u: {
            Wide _e31 = gradient_j[i_1];
            return _e31;
        }
        case 10u: {
            Wide _e34 = gradient_k[i_1];
            return _e34;
        }
        default: {
            Wide _e37 = gradient_l[i_1];
            return _e37;
        }
    }
}

void change_weight(
    uint parameter_1,
    uint i_2,
    Wide change,
    device type_4& weight_a,
    device type_4& weight_b,
    device type_4& weight_c,
    device type_4& weight_d,
    device type_4& weight_e,
    device type_4& weight_f,
    device type_4& weight_g,
    device type_4& weight_h,
    device type_4& weight_i,
    device type_4& weight_j,
    device type_4& weight_k,
    device type_4& weight_l,
    constant AdamW& step
) {
    switch(parameter_1) {
        case 0u: {
            Wide _e7 = weight_a[i_2];
            float _e10 = step.shrink;
            weight_a[i_2] = (_e7 * _e10) - change;
            return;
        }
        case 1u: {
            Wide _e17 = weight_b[i_2];
            float _e20 = step.shrink;
            weight_b[i_2] = (_e17 * _e20) - change;
            return;
        }
        case 2u: {
            Wide _e27 = weight_c[i_2];
            float _e30 = step.shrink;
            weight_c[i_2] = (_e27 * _e30) - change;
            return;
        }
        case 3u: {
            Wide _e37 = weight_d[i_2];
            float _e40 = step.shrink;
            weight_d[i_2] = (_e37 * _e40) - change;
            return;
        }
        case 4u: {
            Wide _e47 = weight_e[i_2];
            float _e50 = step.shrink;
            weight_e[i_2] = (_e47 * _e50) - change;
            return;
        }
        case 5u: {
            Wide _e57 = weight_f[i_2];
            float _e60 = step.shrink;
            weight_f[i_2] = (_e57 * _e60) - change;
            return;
        }
        case 6u: {
            Wide _e67 = weight_g[i_2];
            float _e70 = step.shrink;
            weight_g[i_2] = (_e67 * _e70) - change;
            return;
        }
        case 7u: {
            Wide _e77 = weight_h[i_2];
            float _e80 = step.shrink;
            weight_h[i_2] = (_e77 * _e80) - change;
            return;
        }
        case 8u: {
            Wide _e87 = weight_i[i_2];
            float _e90 = step.shrink;
            weight_i[i_2] = (_e87 * _e90) - change;
            return;
        }
        case 9u: {
            Wide _e97 = weight_j[i_2];
            float _e100 = step.shrink;
            weight_j[i_2] = (_e97 * _e100) - change;
            return;
        }
        case 10u: {
            Wide _e107 = weight_k[i_2];
            float _e110 = step.shrink;
            weight_k[i_2] = (_e107 * _e110) - change;
            return;
        }
        default: {
            Wide _e117 = weight_l[i_2];
            float _e120 = step.shrink;
            weight_l[i_2] = (_e117 * _e120) - change;
            return;
        }
    }
}

struct bf16x4_adamwInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x4_adamw(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_4& first [[buffer(0)]]
, device type_4& second [[buffer(1)]]
, device type_4& weight_a [[buffer(2)]]
, device type_4& weight_b [[buffer(3)]]
, device type_4& weight_c [[buffer(4)]]
, device type_4& weight_d [[buffer(5)]]
, device type_4& weight_e [[buffer(6)]]
, device type_4& weight_f [[buffer(7)]]
, device type_4& weight_g [[buffer(8)]]
, device type_4& weight_h [[buffer(9)]]
, device type_4& weight_i [[buffer(10)]]
, device type_4& weight_j [[buffer(11)]]
, device type_4& weight_k [[buffer(12)]]
, device type_4& weight_l [[buffer(13)]]
, device type_4 const& gradient_a [[buffer(14)]]
, device type_4 const& gradient_b [[buffer(15)]]
, device type_4 const& gradient_c [[buffer(16)]]
, device type_4 const& gradient_d [[buffer(17)]]
, device type_4 const& gradient_e [[buffer(18)]]
, device type_4 const& gradient_f [[buffer(19)]]
, device type_4 const& gradient_g [[buffer(20)]]
, device type_4 const& gradient_h [[buffer(21)]]
, device type_4 const& gradient_i [[buffer(22)]]
, device type_4 const& gradient_j [[buffer(23)]]
, device type_4 const& gradient_k [[buffer(24)]]
, device type_4 const& gradient_l [[buffer(25)]]
, constant AdamW& step [[buffer(26)]]
) {
    uint i = {};
    uint parameter_2 = group.y;
    uint _e12 = step.counts.inner[parameter_2 / 4u][parameter_2 % 4u];
    uint count = _e12 / LANES;
    uint _e23 = step.starts.inner[parameter_2 / 4u][parameter_2 % 4u];
    uint start = _e23 / LANES;
    i = (group.x * THREADS) + thread_;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e92 = i;
            i = _e92 + (groups.x * THREADS);
        }
        loop_init = false;
        uint _e31 = i;
        if (_e31 < count) {
        } else {
            break;
        }
        {
            uint _e33 = i;
            Wide _e34 = gradient(parameter_2, _e33, gradient_a, gradient_b, gradient_c, gradient_d, gradient_e, gradient_f, gradient_g, gradient_h, gradient_i, gradient_j, gradient_k, gradient_l);
            float _e37 = step.gradient_scale;
            Wide g = _e34 * _e37;
            uint _e40 = i;
            Wide _e43 = first[start + _e40];
            float _e46 = step.beta1_;
            float _e50 = step.rest1_;
            Wide m = (_e43 * _e46) + (g * _e50);
            uint _e54 = i;
            Wide _e57 = second[start + _e54];
            float _e60 = step.beta2_;
            float _e65 = step.rest2_;
            Wide v = (_e57 * _e60) + ((g * g) * _e65);
            uint _e69 = i;
            first[start + _e69] = m;
            uint _e73 = i;
            second[start + _e73] = v;
            uint _e76 = i;
            float _e80 = step.correction;
            float _e84 = step.epsilon;
            float _e90 = step.rate;
            change_weight(parameter_2, _e76, (m / ((metal::sqrt(v) * _e80) + metal::float4(_e84))) * _e90, weight_a, weight_b, weight_c, weight_d, weight_e, weight_f, weight_g, weight_h, weight_i, weight_j, weight_k, weight_l, step);
        }
    }
    return;
}

// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::float4 Stored;
typedef metal::float4 Wide;
struct type_4 {
    metal::float2 inner[64];
};
struct Place {
    uint thread_;
    uint lane;
    uint subgroup;
    uint subgroups;
};
struct type_5 {
    metal::uint4 inner[6];
};
struct Squares {
    type_5 counts;
};
typedef Stored type_6[1];
typedef float type_7[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return x;
}

float total(
    Wide x_1
) {
    return (x_1.x + x_1.y) + (x_1.z + x_1.w);
}

float group_sum(
    float value,
    Place place,
    threadgroup type_4& of_subgroup
) {
    float all = 0.0;
    uint i_1 = 0u;
    float unnamed = metal::simd_sum(value);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup].x = unnamed;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = i_1;
            i_1 = _e25 + 1u;
        }
        loop_init = false;
        uint _e14 = i_1;
        if (_e14 < place.subgroups) {
        } else {
            break;
        }
        {
            float _e17 = all;
            uint _e19 = i_1;
            float _e22 = of_subgroup.inner[_e19].x;
            all = _e17 + _e22;
        }
    }
    float _e27 = all;
    return _e27;
}

Stored number(
    uint tensor,
    uint i_2,
    device type_6 const& x_a,
    device type_6 const& x_b,
    device type_6 const& x_c,
    device type_6 const& x_d,
    device type_6 const& x_e,
    device type_6 const& x_f,
    device type_6 const& x_g,
    device type_6 const& x_h,
    device type_6 const& x_i,
    device type_6 const& x_j,
    device type_6 const& x_k,
    device type_6 const& x_l,
    device type_6 const& x_m,
    device type_6 const& x_n,
    device type_6 const& x_o,
    device type_6 const& x_p,
    device type_6 const& x_q,
    device type_6 const& x_r,
    device type_6 const& x_s,
    device type_6 const& x_t,
    device type_6 const& x_u,
    device type_6 const& x_v,
    device type_6 const& x_w,
    device type_6 const& x_x
) {
    switch(tensor) {
        case 0u: {
            Stored _e4 = x_a[i_2];
            return _e4;
        }
        case 1u: {
            Stored _e7 = x_b[i_2];
            return _e7;
        }
        case 2u: {
            Stored _e10 = x_c[i_2];
            return _e10;
        }
        case 3u: {
            Stored _e13 = x_d[i_2];
            return _e13;
        }
        case 4u: {
            Stored _e16 = x_e[i_2];
            return _e16;
        }
        case 5u: {
            Stored _e19 = x_f[i_2];
            return _e19;
        }
        case 6u: {
            Stored _e22 = x_g[i_2];
            return _e22;
        }
        case 7u: {
            Stored _e25 = x_h[i_2];
            return _e25;
        }
        case 8u: {
            Stored _e28 = x_i[i_2];
            return _e28;
        }
        case 9u: {
            Stored _e31 = x_j[i_2];
            return _e31;
        }
        case 10u: {
            Stored _e34 = x_k[i_2];
            return _e34;
        }
        case 11u: {
            Stored _e37 = x_l[i_2];
            return _e37;
        }
        case 12u: {
            Stored _e40 = x_m[i_2];
            return _e40;
        }
        case 13u: {
            Stored _e43 = x_n[i_2];
            return _e43;
        }
        case 14u: {
            Stored _e46 = x_o[i_2];
            return _e46;
        }
        case 15u: {
            Stored _e49 = x_p[i_2];
            return _e49;
        }
        case 16u: {
            Stored _e52 = x_q[i_2];
            return _e52;
        }
        case 17u: {
            Stored _e55 = x_r[i_2];
            return _e55;
        }
        case 18u: {
            Stored _e58 = x_s[i_2];
            return _e58;
        }
        case 19u: {
            Stored _e61 = x_t[i_2];
            return _e61;
        }
        case 20u: {
            Stored _e64 = x_u[i_2];
            return _e64;
        }
        case 21u: {
            Stored _e67 = x_v[i_2];
            return _e67;
        }
        case 22u: {
            Stored _e70 = x_w[i_2];
            return _e70;
        }
        default: {
            Stored _e73 = x_x[i_2];
            return _e73;
        }
    }
}

struct f32x4_squaresInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f32x4_squares(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_4& of_subgroup
, device type_6 const& x_a [[buffer(0)]]
, device type_6 const& x_b [[buffer(1)]]
, device type_6 const& x_c [[buffer(2)]]
, device type_6 const& x_d [[buffer(3)]]
, device type_6 const& x_e [[buffer(4)]]
, device type_6 const& x_f [[buffer(5)]]
, device type_6 const& x_g [[buffer(6)]]
, device type_6 const& x_h [[buffer(7)]]
, device type_6 const& x_i [[buffer(8)]]
, device type_6 const& x_j [[buffer(9)]]
, device type_6 const& x_k [[buffer(10)]]
, device type_6 const& x_l [[buffer(11)]]
, device type_6 const& x_m [[buffer(12)]]
, device type_6 const& x_n [[buffer(13)]]
, device type_6 const& x_o [[buffer(14)]]
, device type_6 const& x_p [[buffer(15)]]
, device type_6 const& x_q [[buffer(16)]]
, device type_6 const& x_r [[buffer(17)]]
, device type_6 const& x_s [[buffer(18)]]
, device type_6 const& x_t [[buffer(19)]]
, device type_6 const& x_u [[buffer(20)]]
, device type_6 const& x_v [[buffer(21)]]
, device type_6 const& x_w [[buffer(22)]]
, device type_6 const& x_x [[buffer(23)]]
, device type_7& sums [[buffer(24)]]
, constant Squares& sizes [[buffer(25)]]
) {
    float sum = 0.0;
    uint i = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e17 = sizes.counts.inner[group.y / 4u][group.y % 4u];
    uint count = _e17 / LANES;
    i = (group.x * THREADS) + thread_;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e37 = i;
            i = _e37 + (groups.x * THREADS);
        }
        loop_init_1 = false;
        uint _e27 = i;
        if (_e27 < count) {
        } else {
            break;
        }
        {
            uint _e30 = i;
            Stored _e31 = number(group.y, _e30, x_a, x_b, x_c, x_d, x_e, x_f, x_g, x_h, x_i, x_j, x_k, x_l, x_m, x_n, x_o, x_p, x_q, x_r, x_s, x_t, x_u, x_v, x_w, x_x);
            Wide _e32 = widen(_e31);
            float _e33 = sum;
            float _e35 = total(_e32 * _e32);
            sum = _e33 + _e35;
        }
    }
    float _e42 = sum;
    float _e43 = group_sum(_e42, place_1, of_subgroup);
    if (thread_ == 0u) {
        sums[(group.y * groups.x) + group.x] = _e43;
        return;
    } else {
        return;
    }
}

// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef ushort Stored;
typedef float Wide;
struct type_3 {
    metal::float2 inner[64];
};
struct Place {
    uint thread_;
    uint lane;
    uint subgroup;
    uint subgroups;
};
struct Norm {
    uint lines;
    uint width;
    uint apart_lines;
    uint apart_numbers;
    float epsilon;
    uint pad0_;
    uint pad1_;
    uint pad2_;
};
typedef Stored type_4[1];
typedef float type_5[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return as_type<float>(static_cast<uint>(x) << 16u);
}

Stored narrow(
    Wide x_1
) {
    uint bits = as_type<uint>(x_1);
    uint rounded = ((bits + 32767u) + ((bits >> 16u) & 1u)) >> 16u;
    bool no_number = (bits & 2147483647u) > 2139095040u;
    return static_cast<ushort>(no_number ? 32704u : rounded);
}

float total(
    Wide x_2
) {
    return x_2;
}

float group_sum(
    float value,
    Place place,
    threadgroup type_3& of_subgroup
) {
    float all = 0.0;
    uint i_2 = 0u;
    float unnamed = metal::simd_sum(value);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (place.lane == 0u) {
        of_subgroup.inner[place.subgroup].x = unnamed;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e25 = i_2;
            i_2 = _e25 + 1u;
        }
        loop_init = false;
        uint _e14 = i_2;
        if (_e14 < place.subgroups) {
        } else {
            break;
        }
        {
            float _e17 = all;
            uint _e19 = i_2;
            float _e22 = of_subgroup.inner[_e19].x;
            all = _e17 + _e22;
        }
    }
    float _e27 = all;
    return _e27;
}

struct bf16x1_residual_normInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void bf16x1_residual_norm(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, uint lane [[thread_index_in_simdgroup]]
, uint subgroup [[simdgroup_index_in_threadgroup]]
, uint subgroups [[simdgroups_per_threadgroup]]
, threadgroup type_3& of_subgroup
, device type_4 const& x_3 [[buffer(0)]]
, device type_4 const& z [[buffer(1)]]
, device type_4& y [[buffer(2)]]
, device type_5& rho [[buffer(3)]]
, constant Norm& norm [[buffer(4)]]
) {
    uint line = {};
    float squares = {};
    uint i = {};
    uint i_1 = {};
    Place place_1 = Place {thread_, lane, subgroup, subgroups};
    uint _e9 = norm.width;
    uint packs = _e9 / LANES;
    line = group.x;
    bool loop_init_1 = true;
    while(true) {
        if (!loop_init_1) {
            uint _e95 = line;
            line = _e95 + groups.x;
        }
        loop_init_1 = false;
        uint _e14 = line;
        uint _e17 = norm.lines;
        if (_e14 < _e17) {
        } else {
            break;
        }
        {
            uint _e19 = line;
            uint _e22 = norm.apart_lines;
            uint start = (_e19 * _e22) / LANES;
            squares = 0.0;
            i = thread_;
            bool loop_init_2 = true;
            while(true) {
                if (!loop_init_2) {
                    uint _e50 = i;
                    i = _e50 + THREADS;
                }
                loop_init_2 = false;
                uint _e29 = i;
                if (_e29 < packs) {
                } else {
                    break;
                }
                {
                    uint _e31 = i;
                    uint _e34 = norm.apart_numbers;
                    uint at = start + (_e31 * _e34);
                    Stored _e39 = x_3[at];
                    Wide _e40 = widen(_e39);
                    Stored _e43 = z[at];
                    Wide _e44 = widen(_e43);
                    Wide sum = _e40 + _e44;
                    float _e46 = squares;
                    float _e48 = total(sum * sum);
                    squares = _e46 + _e48;
                }
            }
            float _e53 = squares;
            float _e54 = group_sum(_e53, place_1, of_subgroup);
            uint _e57 = norm.width;
            float _e62 = norm.epsilon;
            float scale = metal::rsqrt((_e54 / static_cast<float>(_e57)) + _e62);
            if (thread_ == 0u) {
                uint _e68 = line;
                rho[_e68] = scale;
            }
            i_1 = thread_;
            bool loop_init_3 = true;
            while(true) {
                if (!loop_init_3) {
                    uint _e92 = i_1;
                    i_1 = _e92 + THREADS;
                }
                loop_init_3 = false;
                uint _e71 = i_1;
                if (_e71 < packs) {
                } else {
                    break;
                }
                {
                    uint _e73 = i_1;
                    uint _e76 = norm.apart_numbers;
                    uint at_1 = start + (_e73 * _e76);
                    Stored _e83 = x_3[at_1];
                    Wide _e84 = widen(_e83);
                    Stored _e87 = z[at_1];
                    Wide _e88 = widen(_e87);
                    Stored _e91 = narrow((_e84 + _e88) * scale);
                    y[at_1] = _e91;
                }
            }
        }
    }
    return;
}

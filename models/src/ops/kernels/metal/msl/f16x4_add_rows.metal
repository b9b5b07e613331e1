// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef metal::half4 Stored;
typedef metal::float4 Wide;
struct Rows {
    uint vocabulary;
    uint width;
    uint pad0_;
    uint pad1_;
};
typedef Stored type_2[1];
typedef uint type_3[1];
constant uint LANES = 4u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<metal::float4>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<metal::half4>(x_1);
}

struct f16x4_add_rowsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x4_add_rows(
  metal::uint3 group [[threadgroup_position_in_grid]]
, metal::uint3 groups [[threadgroups_per_grid]]
, uint thread_ [[thread_index_in_threadgroup]]
, device type_2 const& gradient [[buffer(0)]]
, device type_3 const& order [[buffer(1)]]
, device type_3 const& starts [[buffer(2)]]
, device type_2& sums [[buffer(3)]]
, constant Rows& sizes [[buffer(4)]]
) {
    uint token = {};
    uint i = {};
    metal::float4 sum = {};
    uint at = {};
    uint _e5 = sizes.width;
    uint packs = _e5 / LANES;
    token = group.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e61 = token;
            token = _e61 + groups.x;
        }
        loop_init = false;
        uint _e10 = token;
        uint _e13 = sizes.vocabulary;
        if (_e10 < _e13) {
        } else {
            break;
        }
        {
            uint _e16 = token;
            uint first = starts[_e16];
            uint _e20 = token;
            uint last = starts[_e20 + 1u];
            i = thread_;
            bool loop_init_1 = true;
            while(true) {
                if (!loop_init_1) {
                    uint _e58 = i;
                    i = _e58 + THREADS;
                }
                loop_init_1 = false;
                uint _e26 = i;
                if (_e26 < packs) {
                } else {
                    break;
                }
                {
                    sum = metal::float4(0.0);
                    at = first;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e48 = at;
                            at = _e48 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e32 = at;
                        if (_e32 < last) {
                        } else {
                            break;
                        }
                        {
                            metal::float4 _e34 = sum;
                            uint _e37 = at;
                            uint _e39 = order[_e37];
                            uint _e41 = i;
                            Stored _e44 = gradient[(_e39 * packs) + _e41];
                            Wide _e45 = widen(_e44);
                            sum = _e34 + _e45;
                        }
                    }
                    uint _e51 = token;
                    uint _e53 = i;
                    metal::float4 _e56 = sum;
                    Stored _e57 = narrow(_e56);
                    sums[(_e51 * packs) + _e53] = _e57;
                }
            }
        }
    }
    return;
}

// language: metal3.0
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

typedef half Stored;
typedef float Wide;
struct Rows {
    uint vocabulary;
    uint width;
    uint pad0_;
    uint pad1_;
};
typedef Stored type_2[1];
typedef uint type_3[1];
constant uint LANES = 1u;
constant uint THREADS = 256u;
constant float FAR_BELOW = -300000000000000000000000000000000000000.0;

Wide widen(
    Stored x
) {
    return static_cast<float>(x);
}

Stored narrow(
    Wide x_1
) {
    return static_cast<half>(x_1);
}

struct f16x1_add_rowsInput {
};
[[max_total_threads_per_threadgroup(256)]] kernel void f16x1_add_rows(
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
    float sum = {};
    uint at = {};
    uint _e5 = sizes.width;
    uint packs = _e5 / LANES;
    token = group.x;
    bool loop_init = true;
    while(true) {
        if (!loop_init) {
            uint _e60 = token;
            token = _e60 + groups.x;
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
                    uint _e57 = i;
                    i = _e57 + THREADS;
                }
                loop_init_1 = false;
                uint _e26 = i;
                if (_e26 < packs) {
                } else {
                    break;
                }
                {
                    sum = 0.0;
                    at = first;
                    bool loop_init_2 = true;
                    while(true) {
                        if (!loop_init_2) {
                            uint _e47 = at;
                            at = _e47 + 1u;
                        }
                        loop_init_2 = false;
                        uint _e31 = at;
                        if (_e31 < last) {
                        } else {
                            break;
                        }
                        {
                            float _e33 = sum;
                            uint _e36 = at;
                            uint _e38 = order[_e36];
                            uint _e40 = i;
                            Stored _e43 = gradient[(_e38 * packs) + _e40];
                            Wide _e44 = widen(_e43);
                            sum = _e33 + _e44;
                        }
                    }
                    uint _e50 = token;
                    uint _e52 = i;
                    float _e55 = sum;
                    Stored _e56 = narrow(_e55);
                    sums[(_e50 * packs) + _e52] = _e56;
                }
            }
        }
    }
    return;
}

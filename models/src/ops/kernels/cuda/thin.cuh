// What is known of products with thin matrices, as `thin.rs` hands it over.
#pragma once

#include "packs.cuh"

// One product. What is converted lies at `wide`, in f32, and goes to `matrix`; a gradient goes to `matrix`, in f32.
struct Piece {
    void *wide, *thin, *matrix;
    // Numbers from one row to the next.
    uint64_t wide_apart, thin_apart;
    // r, a multiple of eight; w; how many of r are wanted; whether what is in f32 is turned, [w, r], and the numbers in a row of it.
    int ranks, width, wanted, turned, of_row;
    float scale;
};

struct Products {
    static constexpr int MAX = 12;
    Piece of[MAX];
};

// The numbers of adapters in f32 -> M [r, w], with zeros in the rows that make r a multiple of eight.
template <typename T> __device__ void convert_piece(const Piece& piece) {
    const float* from = static_cast<const float*>(piece.wide);
    T* to = static_cast<T*>(piece.matrix);
    const size_t count = size_t(piece.ranks) * piece.width, step = size_t(gridDim.x) * blockDim.x;
    for (size_t at = thread_index(); at < count; at += step) {
        const int rank = at / piece.width, column = at % piece.width;
        const size_t place = piece.turned ? size_t(column) * piece.of_row + rank : at;
        to[at] = T(rank < piece.wanted ? from[place] : 0.0f);
    }
}

/* The most multiply-adds one core can do, measured: the ceiling for every product. */
#ifndef RT_BENCH_PEAK_H
#define RT_BENCH_PEAK_H

int peak_count(void); /* instruction sets that this CPU runs */
const char *peak_name(int i);
/* GFLOP/s with one of them (a fused multiply-add counts as two) of a loop that touches registers only. */
double peak_gflops(int i, double seconds);

#endif

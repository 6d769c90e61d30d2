/* The same all-reduce by MPI: mpi_allreduce FLOATS ROUNDS, under mpirun. Prints the seconds that one takes:
 * the median and the least. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 3 };

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const int floats = atoi(argv[1]), rounds = atoi(argv[2]);
    float *x = malloc((size_t)floats * sizeof *x);
    double *seconds = malloc((size_t)rounds * sizeof *seconds);
    if (!x || !seconds || rounds < 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < floats; i++)
        x[i] = 1;
    for (int round = 0; round < WARM_UP + rounds; round++) {
        const double start = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, x, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (round >= WARM_UP)
            seconds[round - WARM_UP] = MPI_Wtime() - start;
        for (int i = 0; round == 0 && i < floats; i++) {
            if (x[i] != (float)size)
                MPI_Abort(MPI_COMM_WORLD, 1);
            x[i] = 0;
        }
    }
    qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
    if (rank == 0)
        printf("%.9f %.9f\n", seconds[rounds / 2], seconds[0]);
    free(x);
    free(seconds);
    MPI_Finalize();
    return 0;
}

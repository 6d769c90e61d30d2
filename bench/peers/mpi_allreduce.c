/* The same all-reduce by MPI: mpi_allreduce FLOATS ROUNDS, under mpirun. Prints the seconds that one takes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 3 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const int floats = atoi(argv[1]), rounds = atoi(argv[2]);
    float *x = malloc((size_t)floats * sizeof *x);
    if (!x)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < floats; i++)
        x[i] = 1;
    double start = 0;
    for (int round = 0; round < WARM_UP + rounds; round++) {
        if (round == WARM_UP)
            start = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, x, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; round == 0 && i < floats; i++) {
            if (x[i] != (float)size)
                MPI_Abort(MPI_COMM_WORLD, 1);
            x[i] = 0;
        }
    }
    if (rank == 0)
        printf("%.9f\n", (MPI_Wtime() - start) / rounds);
    free(x);
    MPI_Finalize();
    return 0;
}

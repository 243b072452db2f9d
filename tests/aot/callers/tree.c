/* A tree of four nodes as index arrays: the loss, its gradient, and trees whose references lead outside. */
#include <stdio.h>

#include "net.h"

int main(void)
{
    const double net[4] = {0.5, -0.25, 0.125, 1.0}, embedding[6] = {0, 0.25, 0.5, 0.75, 1, 1.25};
    /* In preorder: the root, its left child, the right child of that, and the right child of the root. */
    int64_t left[4] = {1, -1, -1, -1}, right[4] = {3, 2, -1, -1}, word[4] = {2, 0, 2, 1};
    const double label[4] = {0.25, 1.0, 0.5, -1.0};
    tree_loss_t_t tree = {0, left, 4, right, 4, word, 4, label, 4};
    double value, by_net[4], by_label[4];
    tree_loss_grad_t_t out = {by_label};
    if (tree_loss_grad(net, 2, 2, embedding, 3, 2, &tree, &value, by_net, &out) != 0) return 1;
    printf("%.17g", value);
    for (int i = 0; i < 4; i++) printf(" %.17g", by_net[i]);
    for (int i = 0; i < 4; i++) printf(" %.17g", by_label[i]);
    int codes[6], k = 0;
    const int64_t wrong[3] = {4, -2, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        left[0] = wrong[i];
        codes[k++] = tree_loss_grad(net, 2, 2, embedding, 3, 2, &tree, &value, by_net, &out);
    }
    int told = codes[0];
    left[0] = 1;
    tree.root = 4;
    codes[k++] = tree_loss_grad(net, 2, 2, embedding, 3, 2, &tree, &value, by_net, &out);
    tree.root = 0;
    tree.Node_right_0 = 3;
    codes[k++] = tree_loss_grad(net, 2, 2, embedding, 3, 2, &tree, &value, by_net, &out);
    tree.Node_right_0 = 4;
    tree.Node_left = NULL;
    codes[k++] = tree_loss_grad(net, 2, 2, embedding, 3, 2, &tree, &value, by_net, &out);
    printf("\n");
    for (int i = 0; i < k; i++) printf("%d%s", JITAD_KIND(codes[i]), i < k - 1 ? " " : "");
    printf(": %s\n", net_strerror(told));
    return 0;
}

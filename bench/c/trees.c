/* A value at each node of a binary tree from those of its children, by recursion over malloc'ed nodes, and the
   derivative of the root's value with respect to every node's number by the adjoint recursion. */
#include <stdlib.h>
#include <string.h>

typedef struct Tree { struct Tree *left, *right; double value; long at; } Tree;
typedef struct { double left, right; } Kept;

static Tree *make(long i, const long *left, const long *right, const double *value)
{
    if (i < 0)
        return NULL;
    Tree *t = malloc(sizeof *t);
    t->value = value[i];
    t->at = i;
    t->left = make(left[i], left, right, value);
    t->right = make(right[i], left, right, value);
    return t;
}

static Tree *tree;
static Kept *tape;

static void prepare(long n, const long *left, const long *right, const double *value)
{
    if (tree == NULL) {
        tree = make(0, left, right, value);
        tape = malloc(n * sizeof *tape);
    }
}

static double total(const Tree *t)
{
    if (t == NULL)
        return 1.0;
    double l = total(t->left), r = total(t->right);
    return 1.0 + t->value * (l + r) - 0.1 * l * r;
}

static double there(const Tree *t, Kept **top)
{
    if (t == NULL)
        return 1.0;
    double l = there(t->left, top), r = there(t->right, top);
    *(*top)++ = (Kept){l, r};
    return 1.0 + t->value * (l + r) - 0.1 * l * r;
}

static void back(const Tree *t, double t_bar, double *value_bar, Kept **top)
{
    if (t == NULL)
        return;
    Kept k = *--*top;
    value_bar[t->at] += t_bar * (k.left + k.right);
    back(t->right, t_bar * (t->value - 0.1 * k.left), value_bar, top);
    back(t->left, t_bar * (t->value - 0.1 * k.right), value_bar, top);
}

double trees(long n, const long *left, const long *right, const double *value)
{
    prepare(n, left, right, value);
    return total(tree);
}

/* value_bar: n doubles */
double trees_gradient(long n, const long *left, const long *right, const double *value, double *value_bar)
{
    prepare(n, left, right, value);
    memset(value_bar, 0, n * sizeof *value_bar);
    Kept *top = tape;
    double result = there(tree, &top);
    back(tree, 1.0, value_bar, &top);
    return result;
}

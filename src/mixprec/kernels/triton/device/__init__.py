"""What runs on the device, in Triton's language: small functions of compile-time constants, and kernels made of them.

Importing its modules needs triton. Only operations whose result IEEE 754 fixes are used, and no multiply-add fusion, so
that they give the reference's bits: + - * / and square roots of fp64, + - * of fp32, integers and bits, compare and
select.
"""

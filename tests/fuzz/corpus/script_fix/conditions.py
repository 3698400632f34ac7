import torch
if x0 and x1 and x2 and x3 and x4 and x5 and x6 and x7 and x8 and x9 and x10 and x11 and x12 and x13 and x14 and x15 and x16 and x17 and x18 and x19 and x20 and x21 and x22 and x23 and x24 and x25 and x26 and x27 and x28 and x29 and x30 and x31 and x32 and x33 and x34 and x35 and x36 and x37 and x38 and x39:
    model = torch.nn.Linear(10, 10).cuda()
class A: pass
class B(A, object): pass
class C(A, B): pass
from m import *
C().step()
